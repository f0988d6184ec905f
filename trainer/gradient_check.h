#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/tape_model.h"

namespace millrace {

struct GradientCheckOptions {
  /// Values compared of each parameter, spread evenly: three quarters or more over those whose gradient is not 0, where
  /// there are as many, the others over the rest; 0: all. Two forward passes each. Default: 8
  int64_t values_per_parameter = 8;
  double step = 1e-5;  ///< how far a weight is moved to either side. Default: 1e-5
  double tolerance =
      1e-5;  ///< a difference, as a share of the largest gradient compared of its parameter. Default: 1e-5
  /// Values that have no gradient on purpose, as the row of padding in an embedding table. `value` counts from 0, row
  /// major. Default: null, none
  std::function<bool(const Parameter& parameter, int64_t value)> left_out = nullptr;
  uint64_t seed = 1;  ///< of the dropout, which is the same in every pass. Default: 1
};

/// A parameter whose gradients differ from the differences of its loss, or of which nothing was compared, since all
/// gradients and differences are 0: no row reaches it.
struct WrongGradient {
  std::string parameter = {};
  int64_t value = 0;      ///< which of its values differs most, from 0, row major
  double gradient = 0;    ///< of the backward pass; NaN where it gave none, as no operator uses the parameter
  double difference = 0;  ///< (loss(w + step) - loss(w - step)) / (2 step)

  /// One line of these.
  std::string to_string() const;
};

/// Compares the gradients of a model's backward pass with central differences of its losses, in double precision, with
/// dropout: each parameter against the loss that it follows. Empty: all are right. For tests of a model of one's own,
/// on a small one and a few rows:
///
///     for (const WrongGradient& wrong : check_gradients(model, rows, weights)) std::cerr << wrong.to_string() << "\n";
///
/// A loss with a corner (`relu`, `absolute_error`) differs where a step crosses it. Throws `kInvalidArgument` for
/// another number of weights, options out of range and a model without `forward_in_double`, and what the model throws.
/// `weights`: `[layout().size()]`, such as start values.
std::vector<WrongGradient> check_gradients(const TapeModel& model, const BatchView& rows,
                                           std::span<const float> weights, const GradientCheckOptions& options = {});

}  // namespace millrace
