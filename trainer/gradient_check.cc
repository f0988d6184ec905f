#include "millrace/trainer/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// Rounding of losses near 1, in differences over two steps of 1e-5, with room.
constexpr double kRounding = 1e-9;

class Checker {
 public:
  Checker(const TapeModel& model, const BatchView& rows, std::span<const float> weights,
          const GradientCheckOptions& options)
      : model_(model),
        layout_(model.layout()),
        rows_(rows),
        options_(options),
        weights_(weights.begin(), weights.end()) {
    if (std::ssize(weights_) != layout_.size()) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{} weights; the model's layout has {}", weights_.size(), layout_.size()));
    }
    if (options.values_per_parameter < 0 || !(options.step > 0) || !(options.tolerance > 0)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("values_per_parameter is {}, step {}, tolerance {}; at least 0 and two numbers "
                                       "above 0 are needed",
                                       options.values_per_parameter, options.step, options.tolerance));
    }
  }

  std::vector<WrongGradient> run() {
    compute_gradients();
    std::vector<WrongGradient> wrong;
    for (const Parameter& parameter : layout_.parameters()) check(parameter, wrong);
    return wrong;
  }

 private:
  ForwardResult<double> forward() {
    ForwardPass<double> pass(tape_, rows_, PassPurpose::kTraining, {.seed = options_.seed});
    ForwardResult<double> result = model_.forward_in_double(pass);
    need_losses(layout_, result);
    return result;
  }

  void compute_gradients() {
    gradients_.assign(weights_.size(), std::numeric_limits<double>::quiet_NaN());
    tape_.begin(layout_, weights_.data(), {.values = gradients_.data()});
    const ForwardResult<double> result = forward();
    for (int loss = 0; loss < layout_.num_losses(); ++loss) {
      sums_.push_back(result.losses[static_cast<size_t>(loss)].sum);
      tape_.backward(result.losses[static_cast<size_t>(loss)].tensor, {}, parameters_of_loss(layout_, loss));
    }
  }

  double loss_at(size_t weight, double value, size_t loss) {
    const double before = std::exchange(weights_[weight], value);
    tape_.begin(layout_, weights_.data());
    const double sum = forward().losses[loss].sum;
    weights_[weight] = before;
    return sum;
  }

  // Those to compare, spread evenly. Where no row reaches (most of an embedding table) 0 is compared with 0, so most
  // are taken among the gradients that are not 0; a quarter among the others, where the backward pass may have
  // forgotten one.
  std::vector<int64_t> values_of(const Parameter& parameter) const {
    std::vector<int64_t> reached;
    std::vector<int64_t> others;
    for (int64_t value = 0; value < parameter.size; ++value) {
      if (options_.left_out && options_.left_out(parameter, value)) continue;
      const bool zero = gradients_[static_cast<size_t>(parameter.offset + value)] == 0;
      (zero ? others : reached).push_back(value);
    }
    const auto all = static_cast<int64_t>(reached.size() + others.size());
    const int64_t count = options_.values_per_parameter == 0 ? all : std::min(options_.values_per_parameter, all);
    const int64_t of_others =
        std::clamp(count / 4, std::max<int64_t>(0, count - std::ssize(reached)), std::min(count, std::ssize(others)));
    std::vector<int64_t> values;
    const auto spread = [&](const std::vector<int64_t>& from, int64_t num) {
      for (int64_t i = 0; i < num; ++i) values.push_back(from[static_cast<size_t>(i * std::ssize(from) / num)]);
    };
    spread(reached, count - of_others);
    spread(others, of_others);
    return values;
  }

  void check(const Parameter& parameter, std::vector<WrongGradient>& wrong) {
    const std::vector<int64_t> values = values_of(parameter);
    const auto loss = static_cast<size_t>(parameter.loss);
    WrongGradient worst{.parameter = parameter.name};
    double most = -1;
    double largest = 0;
    bool any_gradient = values.empty();
    for (const int64_t value : values) {
      const auto at = static_cast<size_t>(parameter.offset + value);
      const double above = loss_at(at, weights_[at] + options_.step, loss);
      const double below = loss_at(at, weights_[at] - options_.step, loss);
      const double difference = (above - below) / (2 * options_.step);
      double error = std::abs(gradients_[at] - difference);
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::abs(difference));
      any_gradient = any_gradient || gradients_[at] != 0;
      if (error <= most) continue;
      most = error;
      worst.value = value;
      worst.gradient = gradients_[at];
      worst.difference = difference;
    }
    const double rounding = kRounding * std::max(1.0, std::abs(sums_[loss]));
    if (!(most <= options_.tolerance * largest + rounding)) {
      wrong.push_back(worst);
    } else if (!any_gradient) {
      wrong.push_back({.parameter = parameter.name, .value = values.front()});
    }
  }

  const TapeModel& model_;
  const ParameterLayout& layout_;
  const BatchView& rows_;
  const GradientCheckOptions& options_;
  std::vector<double> weights_;
  std::vector<double> gradients_;
  std::vector<double> sums_;
  Arena arena_;
  Tape<double> tape_{arena_};
};

}  // namespace

std::string WrongGradient::to_string() const {
  if (std::isnan(gradient)) {
    return fmt::format("{}: no gradient, the difference is {:.9g}; what no step uses must be frozen", parameter,
                       difference);
  }
  if (gradient == 0 && difference == 0) {
    return fmt::format(
        "{}: nothing compared, all gradients and differences are 0; give rows that reach it, or leave it out",
        parameter);
  }
  return fmt::format("{}: value {} has the gradient {:.9g}, the difference is {:.9g}", parameter, value, gradient,
                     difference);
}

std::vector<WrongGradient> check_gradients(const TapeModel& model, const BatchView& rows,
                                           std::span<const float> weights, const GradientCheckOptions& options) {
  return Checker(model, rows, weights, options).run();
}

}  // namespace millrace
