#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/row_view.h"

namespace millrace {

/// A user's function that makes elements: each call writes all features of the next one and returns true, or writes
/// nothing and returns false when there are no more.
using NextElement = std::function<bool(RowWriter&)>;

/// One run of a generator that can say where it is.
struct SavingRun {
  NextElement next = {};
  /// What `start` needs to go on with the element that `next` would write now: at most `kMostGeneratorState` bytes.
  std::function<std::string()> save = {};
};

/// The most that a generator may save of itself.
constexpr size_t kMostGeneratorState = 2048;
/// How often a generator that saves itself is asked to: before every so many elements. A resumed run makes up to as
/// many of them again, beside those of the block.
constexpr int64_t kElementsPerGeneratorState = 16;

/// How runs of a generator are started, and so how one goes on in the middle after a restart. `start` makes a run, for
/// each iteration a fresh one; it must be thread safe, since runs may go on side by side. `iteration.epoch` says which
/// epoch it is of; the elements should depend on nothing else.
///
///     GeneratorRuns::replayed([](const Iteration&) {
///       return [i = int64_t{0}](RowWriter& out) mutable {
///         if (i == 3) return false;
///         out.set("square", i * i);
///         ++i;
///         return true;
///       };
///     })
class GeneratorRuns {
 public:
  using Start = std::function<NextElement(const Iteration&)>;
  using StartAt = std::function<NextElement(const Iteration&, int64_t first)>;
  using StartSaved = std::function<SavingRun(const Iteration&, std::optional<std::string_view> saved)>;
  enum class Rule {
    kReplayed,      ///< a resumed run makes everything before its place again, and drops it
    kSeekable,      ///< a run can begin with any element
    kSaved,         ///< a run says where it is in some bytes, and another begins there
    kNotResumable,  ///< a pipeline with the generator cannot be saved
  };

  /// Runs of one iteration always give the same. What resuming costs grows with the place.
  [[nodiscard]] static GeneratorRuns replayed(Start start) { return {Rule::kReplayed, std::move(start), {}, {}}; }
  /// A run begins with element `first`, counted from 0. Elements for which it threw count too.
  [[nodiscard]] static GeneratorRuns seekable(StartAt start) { return {Rule::kSeekable, {}, std::move(start), {}}; }
  /// A run begins where `save` of another one of the same iteration said, or without `saved` at the beginning.
  [[nodiscard]] static GeneratorRuns saved(StartSaved start) { return {Rule::kSaved, {}, {}, std::move(start)}; }
  /// What another run gives is not known: messages from a queue.
  [[nodiscard]] static GeneratorRuns not_resumable(Start start) {
    return {Rule::kNotResumable, std::move(start), {}, {}};
  }

  Rule rule() const { return rule_; }
  /// Whether there is a function at all.
  bool empty() const { return !start_ && !start_at_ && !start_saved_; }
  /// A run that begins with element `first`, of those that can, else with the first; or where `saved` says. Without a
  /// `save` where the rule knows none.
  [[nodiscard]] SavingRun start(const Iteration& iteration, int64_t first, std::optional<std::string_view> saved) const;

 private:
  GeneratorRuns(Rule rule, Start start, StartAt start_at, StartSaved start_saved)
      : rule_(rule), start_(std::move(start)), start_at_(std::move(start_at)), start_saved_(std::move(start_saved)) {}

  Rule rule_;
  Start start_;
  StartAt start_at_;
  StartSaved start_saved_;
};

/// A source that a user's function makes up.
struct Generator {
  static constexpr std::string_view kKind = "generator";
  std::string name = {};                ///< appears in errors and in `explain()`
  std::vector<FeatureSpec> gives = {};  ///< the features of each element, `kVaries` where sizes differ
  GeneratorRuns runs;                   ///< how it is started, and resumed
};

/// Source: the elements that a function of yours makes, one after the other on one thread. What it throws becomes the
/// error of the element that it was to make, and it is asked for the next one; what starting a run or saving throws,
/// and a saved state that is too long, is an error and the end. A function that works or waits for long holds a thread
/// of the pipeline: elements go on as soon as there are some after a millisecond.
///
///     FromGeneratorOperator squares({.name = "squares",
///                                    .gives = {{.name = "square", .dtype = DType::kInt64, .shape = {}}},
///                                    .runs = GeneratorRuns::replayed(…)});
///
///     square: 0 1 4
class FromGeneratorOperator final : public StageOperator {
 public:
  explicit FromGeneratorOperator(Generator generator);
  std::string_view name() const override { return "from_generator"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.checkpoint_blocker = checkpoint_blocker_}; }

 private:
  Generator generator_;
  std::string checkpoint_blocker_;
};

std::string text_of_argument(const Generator& generator, bool all);

/// What `Dataset::from_generator` is called with.
struct FromGeneratorArguments {
  std::optional<Generator> generator = {};

  static constexpr auto fields() {
    using A = FromGeneratorArguments;
    return describe<A>("from_generator", field::required<&A::generator>);
  }
};

}  // namespace millrace
