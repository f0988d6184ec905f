#include "millrace/ops/flow/rejection_resample.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "rejection_resample";
// Of each class, before any has come: tf.data's smoothing constant.
constexpr int64_t kCountedBefore = 10;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", kName, why));
}

// The chance of each class to stay.
class Acceptance {
 public:
  explicit Acceptance(const RejectionResampleOptions& options)
      : target_(options.target_distribution), counts_(options.initial_distribution.empty() ? target_.size() : 0) {
    std::fill(counts_.begin(), counts_.end(), kCountedBefore);
    for (size_t c = 0; c < target_.size(); ++c) {
      const double share = counts_.empty() ? options.initial_distribution[c] : static_cast<double>(kCountedBefore);
      ratios_.push_back(target_[c] == 0 ? 0 : target_[c] / share);
    }
    find_most_wanted();
  }

  // How many of each class have come; empty where that is given.
  const std::vector<int64_t>& counts() const { return counts_; }
  void set_counts(std::span<const int64_t> counts) {
    counts_.assign(counts.begin(), counts.end());
    for (int64_t& count : counts_) count = std::max<int64_t>(count, 1);
    for (size_t c = 0; c < counts_.size(); ++c) ratios_[c] = target_[c] / static_cast<double>(counts_[c]);
    find_most_wanted();
  }

  // Of the next element, in 2^-32.
  uint64_t of_next(size_t one_class) {
    if (!counts_.empty()) {
      ratios_[one_class] = target_[one_class] / static_cast<double>(++counts_[one_class]);
      // A ratio only falls: the largest stays that until its own does.
      if (one_class == most_wanted_) find_most_wanted();
    }
    return chance(ratios_[one_class] / ratios_[most_wanted_]);
  }

 private:
  void find_most_wanted() {
    most_wanted_ = static_cast<size_t>(std::max_element(ratios_.begin(), ratios_.end()) - ratios_.begin());
  }

  std::vector<double> target_;
  std::vector<int64_t> counts_;
  std::vector<double> ratios_;  // of target and initial share, up to a factor
  size_t most_wanted_ = 0;
};

class RejectionResampleStage final : public Stage {
 public:
  static constexpr std::string_view kKind = kName;

  RejectionResampleStage(std::unique_ptr<Stage> input, const RejectionResampleOptions& options, size_t column,
                         const CounterRng& rng, const StageContext& context)
      : input_(std::move(input)),
        feature_(options.feature),
        num_classes_(options.target_distribution.size()),
        column_(column),
        rng_(rng),
        context_(context),
        acceptance_(options) {
    if (context.state == nullptr) return;
    const size_t num_counts = acceptance_.counts().size();
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 1 + num_counts);
    next_ = static_cast<uint64_t>(numbers[0]);
    if (num_counts > 0) acceptance_.set_counts(std::span(numbers).subspan(1, num_counts));
  }

  Poll next(Block& out) override {
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    std::vector<int64_t> numbers{static_cast<int64_t>(next_)};
    numbers.insert(numbers.end(), acceptance_.counts().begin(), acceptance_.counts().end());
    const Cursor begin = make_cursor(kKind, std::move(numbers), {out.cursor});
    std::vector<size_t> chosen;
    chosen.reserve(out.num_elements());
    for (size_t i = 0; i < out.num_elements(); ++i) {
      const auto error = out.errors().empty() ? nullptr : out.error_at(i);
      const bool is_note = error != nullptr && error->skipped != nullptr;
      const uint64_t ordinal = is_note ? next_ : next_++;
      if (error != nullptr || stays(out, i, ordinal)) chosen.push_back(i);
    }
    if (chosen.empty()) {
      // There may never be another one: somebody who wants to stop all must get his turn.
      out = Block();
      context_.waker.wake();
      return Poll::kPending;
    }
    if (chosen.size() < out.num_elements()) out = out.select(chosen, context_.pool);
    out.cursor = begin;
    return poll;
  }

 private:
  bool stays(Block& block, size_t element, uint64_t ordinal) {
    const Column& column = block.column(column_);
    const int64_t one_class =
        column.dtype() == DType::kInt32 ? column.values<int32_t>(element)[0] : column.values<int64_t>(element)[0];
    if (one_class < 0 || one_class >= static_cast<int64_t>(num_classes_)) {
      Error error{.code = ErrorCode::kOutOfRange,
                  .message = fmt::format("{}: feature '{}' is {}, and there are classes from 0 to {}", kName, feature_,
                                         one_class, num_classes_ - 1)};
      block.locate(element, error);
      block.add_error(element, std::make_shared<const Error>(std::move(error)));
      return true;
    }
    return rng_.words(ordinal)[0] < acceptance_.of_next(static_cast<size_t>(one_class));
  }

  std::unique_ptr<Stage> input_;
  const std::string& feature_;
  size_t num_classes_;
  size_t column_;
  CounterRng rng_;
  StageContext context_;
  Acceptance acceptance_;
  uint64_t next_ = 0;
};

void check_distribution(std::string_view what, const std::vector<double>& shares) {
  double sum = 0;
  for (const double share : shares) {
    if (!std::isfinite(share) || share < 0) refuse(fmt::format("the {} distribution has {}", what, share));
    sum += share;
  }
  if (!(sum > 0) || !std::isfinite(sum)) refuse(fmt::format("the {} distribution has the sum {}", what, sum));
}

}  // namespace

RejectionResampleOperator::RejectionResampleOperator(const SchemaPtr& input, RejectionResampleOptions options,
                                                     uint64_t occurrence)
    : StageOperator(input),
      options_(std::move(options)),
      column_(static_cast<size_t>(input->column(options_.feature))),
      occurrence_(occurrence) {
  const FeatureSpec& feature = (*input)[column_];
  if (!feature.shape.empty() || (feature.dtype != DType::kInt32 && feature.dtype != DType::kInt64)) {
    refuse(fmt::format("feature '{}' is {} {}, a class is int32 or int64 []", feature.name, to_string(feature.dtype),
                       to_string(feature.shape)));
  }
  const std::vector<double>& target = options_.target_distribution;
  const std::vector<double>& initial = options_.initial_distribution;
  constexpr size_t kMostClasses = 256;  // the counts go into every state
  if (target.empty() || target.size() > kMostClasses) {
    refuse(
        fmt::format("there are {} classes in the target distribution, must be 1 to {}", target.size(), kMostClasses));
  }
  check_distribution("target", target);
  if (initial.empty()) return;
  if (initial.size() != target.size()) {
    refuse(fmt::format("{} classes in the target distribution, {} in the initial one", target.size(), initial.size()));
  }
  check_distribution("initial", initial);
  for (size_t c = 0; c < target.size(); ++c) {
    if (target[c] > 0 && initial[c] == 0) {
      refuse(fmt::format("class {} is wanted with {}, and comes never", c, target[c]));
    }
  }
}

std::unique_ptr<Stage> RejectionResampleOperator::open(std::vector<OpenStage> inputs,
                                                       const StageContext& context) const {
  const CounterRng rng(options_.seed, operator_id(kName, occurrence_), context.iteration);
  return std::make_unique<RejectionResampleStage>(open_input(inputs[0], context), options_, column_, rng, context);
}

}  // namespace millrace
