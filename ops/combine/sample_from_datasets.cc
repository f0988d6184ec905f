#include "millrace/ops/combine/sample_from_datasets.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "sample_from_datasets";

class DrawnChoices final : public InputSelector {
 public:
  static constexpr std::string_view kKind = "draws";

  DrawnChoices(std::vector<double> weights, const CounterRng& rng, const StageContext& context)
      : weights_(std::move(weights)), rng_(rng) {
    add_up();
    if (context.state == nullptr) return;
    if (context.state->inputs.empty() || context.state->inputs[0].state == nullptr) {
      throw ErrorException(ErrorCode::kState, fmt::format("the state of a {} has no draws", kName));
    }
    next_ = static_cast<uint64_t>(numbers_of(*context.state->inputs[0].state, kKind, 1)[0]);
  }

  Poll peek(Choice& out) override {
    // 53 bits, as many as a double has.
    const double place = std::ldexp(static_cast<double>(rng_.bits(next_) >> 11), -53) * sums_.back();
    const auto above = std::upper_bound(sums_.begin(), sums_.end(), place);
    out.input = std::min(static_cast<size_t>(above - sums_.begin()), last_);
    return Poll::kBlock;
  }
  void take(size_t count) override { next_ += count; }
  void ended(size_t input) override {
    weights_[input] = 0;
    add_up();
  }
  Cursor place() const override { return make_cursor(kKind, {static_cast<int64_t>(next_)}); }

 private:
  void add_up() {
    sums_.clear();
    double sum = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      sum += weights_[i];
      sums_.push_back(sum);
      if (weights_[i] > 0) last_ = i;
    }
  }

  std::vector<double> weights_;
  std::vector<double> sums_;  // of the weights up to each input
  size_t last_ = 0;           // input with a weight
  CounterRng rng_;
  uint64_t next_ = 0;
};

std::vector<double> checked_weights(std::vector<double> weights, size_t num_inputs) {
  if (weights.empty()) weights.assign(num_inputs, 1);
  const auto refuse = [&](std::string_view what) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: {}: weights are [{}]", kName, what, fmt::join(weights, ", ")));
  };
  if (weights.size() != num_inputs) refuse(fmt::format("{} inputs need as many weights", num_inputs));
  double sum = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) refuse("weights must be finite and at least 0");
    sum += weight;
  }
  if (sum == 0) refuse("no input has a weight above 0");
  if (!std::isfinite(sum)) refuse("the sum of the weights must be finite");
  return weights;
}

}  // namespace

SampleFromDatasetsOperator::SampleFromDatasetsOperator(std::span<const SchemaPtr> inputs, SampleOptions options,
                                                       uint64_t occurrence)
    : SampleFromDatasetsOperator(JoinedSchema(kName, inputs), std::move(options), occurrence) {}

SampleFromDatasetsOperator::SampleFromDatasetsOperator(JoinedSchema data, SampleOptions options, uint64_t occurrence)
    : StageOperator(data.schema()), data_(std::move(data)), options_(std::move(options)), occurrence_(occurrence) {
  options_.weights = checked_weights(std::move(options_.weights), data_.num_inputs());
}

Cardinality SampleFromDatasetsOperator::cardinality(std::span<const Cardinality> inputs) const {
  Cardinality last = Cardinality::unknown();
  size_t num_drawn = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (options_.weights[i] == 0) continue;
    if (inputs[i].is_infinite()) return inputs[i];
    last = inputs[i];
    ++num_drawn;
  }
  return num_drawn == 1 ? last : Cardinality::unknown();
}

Cardinality SampleFromDatasetsOperator::certain_cardinality(std::span<const Cardinality> inputs) const {
  const Cardinality reported = cardinality(inputs);
  if (!reported.is_infinite() || !options_.stop_on_empty) return reported;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (options_.weights[i] > 0 && !inputs[i].is_infinite()) return Cardinality::unknown();
  }
  return reported;
}

std::unique_ptr<Stage> SampleFromDatasetsOperator::open(std::vector<OpenStage> inputs,
                                                        const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (options_.weights[i] == 0) inputs[i] = nullptr;
  }
  const auto draws = [&](const StageContext& at) {
    const Iteration iteration{options_.rerandomize_each_iteration ? at.iteration.epoch : 0, at.iteration.path};
    return std::make_unique<DrawnChoices>(options_.weights,
                                          CounterRng(options_.seed, operator_id(kName, occurrence_), iteration), at);
  };
  return std::make_unique<SelectionStage>(kName, data_, std::move(inputs), draws, options_.stop_on_empty, context);
}

}  // namespace millrace
