#include "millrace/trainer/models/super_resolution.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/absolute_error.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/scale.h"
#include "millrace/trainer/tensor/squared_error.h"
#include "millrace/trainer/tensor/sum.h"

namespace millrace {
namespace {

constexpr const char* kLow = "low_res_image";
constexpr const char* kHigh = "high_res_image";

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kInvalidArgument, std::move(message)); }

// Refuses images that do not go together.
void check_images(const FeatureView& low, const FeatureView* high) {
  const auto sizes = low.shape();
  const bool is_image = sizes.size() == 4 && sizes[3] == 3 && sizes[1] > 0 && sizes[2] > 0;
  if (!is_image) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("feature '{}' is [{}], must be [rows, height, width, 3]",
                                                             kLow, fmt::join(sizes, ", ")));
  }
  if (high == nullptr) return;
  const std::vector<int64_t> wanted = {sizes[0], kUpscaling * sizes[1], kUpscaling * sizes[2], 3};
  if (!std::ranges::equal(high->shape(), wanted)) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("feature '{}' is [{}], must be [{}] beside '{}'", kHigh,
                                     fmt::join(high->shape(), ", "), fmt::join(wanted, ", "), kLow));
  }
}

// x minus the mean of the values of `others`; both [rows, 1].
template <typename T>
Tensor<T> against(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& others) {
  const Tensor<T> mean = scale(tape, sum(tape, others), -1.0 / static_cast<double>(others.count()));
  return add_bias(tape, x, mean.reshaped({1}));
}

}  // namespace

SuperResolution::SuperResolution(SuperResolutionOptions options)
    : options_(std::move(options)), generator_(layout_, options_.generator, "generator.") {
  const SuperResolutionLosses& losses = options_.losses;
  double sum = 0;
  for (const double factor : {losses.absolute, losses.squared, losses.perceptual, losses.adversarial}) {
    if (!std::isfinite(factor) || factor < 0) refuse(fmt::format("a factor of the loss is {}", factor));
    sum += factor;
  }
  if (sum == 0) refuse("all factors of the loss are 0");
  if (losses.perceptual > 0 && options_.features == nullptr) refuse("a perceptual term needs a frozen network");
  if (losses.adversarial > 0) discriminator_.emplace(layout_, options_.discriminator, "discriminator.", 1);
  layout_.finish();
}

std::string SuperResolution::describe() const {
  const SuperResolutionLosses& losses = options_.losses;
  std::string text = fmt::format("super_resolution({}, absolute={}, squared={}, perceptual={}, adversarial={}",
                                 options_.generator.describe(), losses.absolute, losses.squared, losses.perceptual,
                                 losses.adversarial);
  if (losses.perceptual > 0) text += fmt::format(", features={}", options_.features->describe());
  if (discriminator_) text += ", " + options_.discriminator.describe();
  if (options_.teacher != nullptr) text += fmt::format(", teacher={}", options_.teacher->describe());
  return text + ")";
}

void SuperResolution::initialize(std::span<float> weights, uint64_t seed) const {
  generator_.initialize(layout_, weights, seed);
  if (discriminator_) discriminator_->initialize(layout_, weights, seed);
  if (options_.generator_folder.empty()) return;
  const TrainedGenerator start(options_.generator_folder);
  if (start.generator().config() != options_.generator) {
    refuse(fmt::format("{} is {}, not {}", options_.generator_folder, start.generator().config().describe(),
                       options_.generator.describe()));
  }
  copy_generator(start.layout(), start.generator(), start.weights(), layout_, generator_, weights);
}

template <typename T>
Tensor<T> SuperResolution::taught(Tape<T>& tape, const Tensor<T>& low) const {
  const auto sizes = low.shape.sizes();
  const std::vector<float> pixels(low.values, low.values + low.count());
  const std::vector<float> made = options_.teacher->upscale(pixels, sizes[1], sizes[2]);
  T* kept = tape.template keep<T>(std::ssize(made));
  std::copy(made.begin(), made.end(), kept);
  return tape.constant(kept, {sizes[0], kUpscaling * sizes[1], kUpscaling * sizes[2], sizes[3]});
}

template <typename T>
void SuperResolution::add_adversarial(Tape<T>& tape, const Tensor<T>& real, const Tensor<T>& made, Tensor<T>& total,
                                      ForwardResult<T>& result) const {
  const int64_t rows = real.shape.sizes()[0];
  const auto targets = [&](T value) {
    T* kept = tape.template keep<T>(rows);
    std::fill_n(kept, rows, value);
    return tape.constant(kept, {rows, 1});
  };
  const Tensor<T> real_logits = discriminator_->logits(tape, real);
  const Tensor<T> made_logits = discriminator_->logits(tape, made);
  const Tensor<T> real_side = against(tape, real_logits, made_logits);
  const Tensor<T> made_side = against(tape, made_logits, real_logits);
  const auto loss = [&](T of_real, T of_made) {
    const Tensor<T> both = add(tape, sum(tape, bce_with_logits(tape, real_side, targets(of_real))),
                               sum(tape, bce_with_logits(tape, made_side, targets(of_made))));
    return scale(tape, both, 0.5);
  };
  const Tensor<T> generator = loss(0, 1);
  total = add(tape, total, scale(tape, generator, options_.losses.adversarial));
  const auto weight = static_cast<double>(rows);
  result.metrics.push_back({.name = "adversarial", .sum = static_cast<double>(*generator.values), .weight = weight});
  const auto told = std::count_if(real_side.values, real_side.values + rows, [](T x) { return x > 0; }) +
                    std::count_if(made_side.values, made_side.values + rows, [](T x) { return x < 0; });
  result.metrics.push_back({.name = "told_apart", .sum = static_cast<double>(told), .weight = 2 * weight});
  result.losses.emplace_back(loss(1, 0), weight);
}

template <typename T>
ForwardResult<T> SuperResolution::run(ForwardPass<T>& pass) const {
  Tape<T>& tape = pass.tape();
  const FeatureView* high = pass.labels(kHigh);
  check_images(pass.rows().feature(kLow), high);
  const Tensor<T> low = pass.constant(kLow);
  const Tensor<T> made = generator_.upscale(tape, low);
  ForwardResult<T> result;
  if (pass.predicts()) {
    result.columns = {predicted_column(kHigh, made)};
    auto& values = std::get<std::vector<float>>(result.columns.front().values);
    for (float& value : values) value = std::clamp(value, 0.0F, 1.0F);
  }
  if (high == nullptr) return result;

  const Tensor<T> real = pass.constant(*high);
  const Tensor<T> target = options_.teacher == nullptr ? real : taught(tape, low);
  const SuperResolutionLosses& losses = options_.losses;
  const auto rows = static_cast<double>(pass.rows().rows());
  T* zero = tape.template keep<T>(1);
  *zero = 0;
  Tensor<T> total = tape.constant(zero, {});
  // Of errors of values, as many for each row.
  const auto add_term = [&](const char* name, double factor, const Tensor<T>& errors) {
    const Tensor<T> term = scale(tape, sum(tape, errors), rows / static_cast<double>(errors.count()));
    result.metrics.push_back({.name = name, .sum = static_cast<double>(*term.values), .weight = rows});
    total = add(tape, total, scale(tape, term, factor));
  };
  if (losses.absolute > 0) add_term("absolute", losses.absolute, absolute_error(tape, made, target));
  if (losses.squared > 0) add_term("squared", losses.squared, squared_error(tape, made, target));
  if (losses.perceptual > 0) {
    const Vgg& network = *options_.features;
    const auto wanted = [&] {
      const typename Tape<T>::NoGrad no_grad(tape);
      return network.maps(tape, target);
    }();
    add_term("perceptual", losses.perceptual, absolute_error(tape, network.maps(tape, made), wanted));
  }
  if (discriminator_) add_adversarial(tape, real, made, total, result);
  result.losses.insert(result.losses.begin(), ForwardLoss<T>(total, rows));
  return result;
}

}  // namespace millrace
