#include "millrace/ops/sources/from_generator.h"

#include <chrono>

#include <fmt/format.h>

#include "millrace/ops/element_progress.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

std::string_view to_string(GeneratorRuns::Rule rule) {
  switch (rule) {
    case GeneratorRuns::Rule::kReplayed: return "replayed";
    case GeneratorRuns::Rule::kSeekable: return "seekable";
    case GeneratorRuns::Rule::kSaved: return "saved";
    case GeneratorRuns::Rule::kNotResumable: return "not resumable";
  }
  return "?";
}

// Says when a slow function has worked for so long that what there is should go on. A look at the clock takes as long
// as a cheap element, so many elements have one together.
class Patience {
 public:
  bool is_over(size_t num_elements) const {
    if (num_elements > 16 && num_elements % 16 != 0) return false;
    return std::chrono::steady_clock::now() >= end_;
  }

 private:
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
};

class GeneratorStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "generator";

  GeneratorStage(const Generator& generator, const SchemaPtr& schema, const StageContext& context)
      : generator_(generator), schema_(schema), context_(context) {
    if (context.state == nullptr) return;
    const int64_t first = numbers_of(*context.state, kKind, 1)[0];
    switch (generator.runs.rule()) {
      case GeneratorRuns::Rule::kSaved:
        saved_ = context.state->bytes;
        saved_at_ = first;
        [[fallthrough]];
      case GeneratorRuns::Rule::kSeekable: next_ = first; break;
      case GeneratorRuns::Rule::kReplayed:
      case GeneratorRuns::Rule::kNotResumable: replay_to_ = elements_to_read_again(kKind, first); break;
    }
  }

  Poll next(Block& out) override {
    if (ended_) return Poll::kEnd;
    const Patience patience;
    if (!run_.next) start();
    if (!ended_ && !catch_up(patience)) {
      // Somebody who wants to stop all must get his turn.
      context_.waker.wake();
      return Poll::kPending;
    }
    RowWriter writer(schema_, context_.pool);
    ElementProgress progress;
    Cursor begin = place();
    size_t count = 0;
    while (!ended_) {
      if (run_.save && next_ % kElementsPerGeneratorState == 0 && !save()) break;
      if (count == 0) begin = place();
      if (!make(writer)) break;
      progress.step();
      if (++count == kBlockElements || writer.byte_size() >= kBlockBytes || patience.is_over(count)) break;
    }
    if (failure_ != nullptr) {
      writer.fail_element(std::exchange(failure_, nullptr));
      ++count;
    }
    if (ended_) run_ = {};
    if (count == 0) return Poll::kEnd;
    out = writer.finish();
    out.epoch = context_.iteration.epoch;
    out.cursor = std::move(begin);
    return Poll::kBlock;
  }

 private:
  // Of the element that comes next.
  Cursor place() const {
    if (generator_.runs.rule() != GeneratorRuns::Rule::kSaved) return make_cursor(kKind, {std::max(next_, replay_to_)});
    if (!saved_) return {nullptr, next_};
    return make_cursor(kKind, {saved_at_}, {}, *saved_).advanced_by(next_ - saved_at_);
  }

  void start() {
    try {
      run_ = generator_.runs.start(context_.iteration, next_, saved_);
      if (!run_.next) throw ErrorException(ErrorCode::kUserFunction, "its runs have no function");
      if (!run_.save && generator_.runs.rule() == GeneratorRuns::Rule::kSaved) {
        throw ErrorException(ErrorCode::kUserFunction, "its runs have no function that saves them");
      }
    } catch (...) {
      fail(user_function_error("from_generator", generator_.name));
    }
  }

  // Makes again what a run before made. False when that is not done yet.
  bool catch_up(const Patience& patience) {
    if (next_ >= replay_to_) return true;
    RowWriter dropped(schema_, context_.pool);
    ElementProgress progress;
    for (size_t count = 1; next_ < replay_to_; ++count) {
      if (!make(dropped)) {
        fail({.code = ErrorCode::kState,
              .message = fmt::format("from_generator '{}': is to go on with element {}, and made only {}",
                                     generator_.name, replay_to_, next_)});
        return true;
      }
      progress.step();
      if (count == kBlockElements || dropped.byte_size() >= kBlockBytes || patience.is_over(count)) break;
    }
    return next_ >= replay_to_;
  }

  bool save() {
    try {
      std::string bytes = run_.save();
      if (bytes.size() > kMostGeneratorState) {
        throw ErrorException(ErrorCode::kUserFunction, fmt::format("saves {} bytes of itself, {} are allowed",
                                                                   bytes.size(), kMostGeneratorState));
      }
      saved_ = std::move(bytes);
      saved_at_ = next_;
      return true;
    } catch (...) {
      fail(at_element(user_function_error("from_generator", generator_.name)));
      return false;
    }
  }

  // False when there are no more.
  bool make(RowWriter& writer) {
    const BufferPool::Unlimited of_user;
    try {
      if (run_.next(writer)) {
        writer.end_element();
      } else {
        ended_ = true;
        if (!writer.has_begun()) return false;
        throw ErrorException(ErrorCode::kUserFunction, "says that there are no more elements, and has written one");
      }
    } catch (...) {
      writer.fail_element(
          std::make_shared<const Error>(at_element(user_function_error("from_generator", generator_.name))));
    }
    ++next_;
    return true;
  }

  Error at_element(Error error) const {
    error.message += fmt::format(" (element {})", next_);
    return error;
  }

  // An error after which there is nothing.
  void fail(Error error) {
    error.ends_stream = true;
    failure_ = std::make_shared<const Error>(std::move(error));
    ended_ = true;
  }

  const Generator& generator_;
  const SchemaPtr schema_;
  StageContext context_;
  SavingRun run_;
  int64_t next_ = 0;       // element that `run_` makes next
  int64_t replay_to_ = 0;  // the first that is wanted, when replayed
  std::optional<std::string> saved_;
  int64_t saved_at_ = 0;  // element
  bool ended_ = false;
  std::shared_ptr<const Error> failure_;  // to be delivered
};

}  // namespace

SavingRun GeneratorRuns::start(const Iteration& iteration, int64_t first, std::optional<std::string_view> saved) const {
  if (start_at_) return {start_at_(iteration, first), nullptr};
  if (start_saved_) return start_saved_(iteration, saved);
  return {start_(iteration), nullptr};
}

std::string text_of_argument(const Generator& generator, bool /*all*/) {
  return fmt::format("{} {}", description::quoted(generator.name), to_string(generator.runs.rule()));
}

FromGeneratorOperator::FromGeneratorOperator(Generator generator)
    : StageOperator(std::make_shared<const Schema>(generator.gives)), generator_(std::move(generator)) {
  const auto refuse = [](std::string_view what) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("from_generator: {}", what));
  };
  if (generator_.name.empty()) refuse("the generator has no name");
  if (generator_.gives.empty()) refuse("no features given");
  if (generator_.runs.empty()) refuse("no function given");
  for (const FeatureSpec& feature : generator_.gives) {
    if (feature.is_ragged()) refuse(fmt::format("feature '{}' is ragged, which a function cannot write", feature.name));
  }
  if (generator_.runs.rule() == GeneratorRuns::Rule::kNotResumable) {
    checkpoint_blocker_ = fmt::format("generator '{}' is declared not resumable", generator_.name);
  }
}

std::unique_ptr<Stage> FromGeneratorOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  return std::make_unique<GeneratorStage>(generator_, schema(), context);
}

}  // namespace millrace
