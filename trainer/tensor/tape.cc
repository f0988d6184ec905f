#include "millrace/trainer/tensor/tape.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/dropout.h"

namespace millrace {

TensorShape::TensorShape(std::span<const int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (sizes.size() > sizes_.size()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a tensor of rank {}; at most {} is supported", sizes.size(), sizes_.size()));
  }
  for (int64_t size : sizes) {
    if (size < 0) throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a tensor with a size of {}", size));
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

int64_t TensorShape::count() const { return rows() * columns(); }

int64_t TensorShape::rows() const {
  int64_t rows = 1;
  for (int i = 0; i + 1 < rank_; ++i) rows *= sizes_[static_cast<size_t>(i)];
  return rows;
}

template <typename T>
Tensor<T> Tensor<T>::reshaped(const TensorShape& sizes) const {
  if (sizes.count() != count()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("a tensor of {} values cannot have the shape [{}]",
                                                             count(), fmt::join(sizes.sizes(), ", ")));
  }
  return {.values = values, .shape = sizes, .gradient = gradient};
}

template <typename T>
void Tape<T>::begin(const ParameterLayout& layout, const T* weights, Gradients gradients) {
  arena_.reset();
  layout_ = &layout;
  weights_ = weights;
  rows_ = nullptr;
  gradients_ = gradients;
  table_.clear();
  records_.clear();
  inputs_.clear();
  dropouts_.clear();
  if (!recording()) return;
  for (const Parameter& parameter : layout.parameters()) {
    table_.push_back({.values = gradients.values + parameter.offset, .count = parameter.size});
  }
}

template <typename T>
void Tape<T>::take_dropout(const DropoutMask& mask) {
  const std::pair taken(mask.key(), mask.first_row());
  if (std::ranges::find(dropouts_, taken) != dropouts_.end()) {
    const std::string_view name = mask.place_name();
    const std::string place = name.empty()
                                  ? fmt::format(
                                        "{}: they would drop alike, so each call of a part of the model "
                                        "needs another DropoutKey::call",
                                        mask.place())
                                  : fmt::format("'{}': they would drop alike, so each needs a name of its own", name);
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("two dropouts of one pass have the place {}", place));
  }
  dropouts_.push_back(taken);
}

template <typename T>
std::string Tape<T>::name_of(const Tensor<T>& tensor) const {
  for (const Parameter& parameter : layout_->parameters()) {
    if (tensor.values == weights_ + parameter.offset) return fmt::format("'{}'", parameter.name);
  }
  return {};
}

template <typename T>
std::string Tape<T>::place_of(std::span<const int32_t> values, size_t index) const {
  const auto features = rows_ == nullptr ? std::span<const FeatureView>() : rows_->features();
  for (const FeatureView& feature : features) {
    const auto* own = std::get_if<std::span<const int32_t>>(&feature.any_values());
    const int32_t* value = values.data() + index;
    const std::less<> before;
    if (own == nullptr || before(value, own->data()) || !before(value, own->data() + own->size())) continue;
    const int64_t place = value - own->data();
    const int64_t row = rows_->first_row() + place / feature.row_size();
    return fmt::format("feature '{}', row {}{}", feature.name(), row,
                       feature.row_size() > 1 ? fmt::format(", value {}", place % feature.row_size()) : "");
  }
  return fmt::format("position {}", index);
}

template <typename T>
Tensor<T> Tape<T>::parameter(int id) const {
  const Parameter& parameter = layout_->parameters()[static_cast<size_t>(id)];
  // Operators do not write to their inputs; one type of tensor for both kinds keeps their signatures simple.
  return {.values = const_cast<T*>(weights_ + parameter.offset),
          .shape = TensorShape(parameter.shape),
          .gradient = recording() ? id : -1};
}

template <typename T>
Tensor<T> Tape<T>::constant(const T* values, const TensorShape& shape) const {
  return {.values = const_cast<T*>(values), .shape = shape};
}

template <typename T>
Tensor<T> Tape<T>::make(const TensorShape& shape) {
  Tensor<T> tensor{.values = arena_.allocate<T>(shape.count()), .shape = shape};
  if (recording()) {
    tensor.gradient = static_cast<int>(table_.size());
    table_.push_back({.count = shape.count()});
  }
  return tensor;
}

template <typename T>
void Tape<T>::add_record(std::span<const Tensor<T>> inputs, const Tensor<T>& output, const void* closure, Run run) {
  Record record{
      .run = run, .closure = closure, .output = output.gradient, .first_input = static_cast<int>(inputs_.size())};
  for (const Tensor<T>& input : inputs) {
    if (!input.needs_gradient()) continue;
    inputs_.push_back(input.gradient);
    ++record.num_inputs;
  }
  records_.push_back(record);
}

template <typename T>
GradientSlot<T> Tape<T>::gradient_of(const Tensor<T>& tensor) {
  Gradient& gradient = table_[static_cast<size_t>(tensor.gradient)];
  if (gradient.values == nullptr) gradient.values = arena_.allocate<T>(gradient.count);
  const bool add = gradient.written;
  gradient.written = true;
  return {.values = gradient.values, .add = add};
}

template <typename T>
void Tape<T>::announce_if_final(int id) {
  const auto num_parameters = layout_->parameters().size();
  Gradient& gradient = table_[static_cast<size_t>(id)];
  if (static_cast<size_t>(id) >= num_parameters || !gradient.wanted || gradient.uses > 0) return;
  if (!gradient.written) std::fill_n(gradient.values, gradient.count, T{0});
  if (gradients_.listener != nullptr) gradients_.listener->gradient_final(id);
}

// Finds out what leads to the parameters, and how often each tensor is used on the way.
template <typename T>
void Tape<T>::prepare_walk(std::optional<std::span<const int>> parameters) {
  const size_t num_parameters = layout_->parameters().size();
  for (size_t id = 0; id < table_.size(); ++id) {
    Gradient& gradient = table_[id];
    gradient.wanted = !parameters && id < num_parameters;
    gradient.uses = 0;
    if (id < num_parameters) continue;
    gradient.values = nullptr;  // an earlier walk has given it back
    gradient.written = false;
  }
  for (const int id : parameters.value_or(std::span<const int>())) table_.at(static_cast<size_t>(id)).wanted = true;
  for (size_t id = 0; id < num_parameters; ++id) {
    Gradient& gradient = table_[id];
    if (!gradient.wanted) continue;
    if (gradient.walked) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("a second backward pass for the parameter {}", layout_->parameters()[id].name));
    }
    gradient.walked = true;
  }
  for (const Record& record : records_) {
    bool wanted = false;
    for (const int id : inputs_of(record)) wanted = wanted || table_[static_cast<size_t>(id)].wanted;
    table_[static_cast<size_t>(record.output)].wanted = wanted;
    for (const int id : inputs_of(record)) ++table_[static_cast<size_t>(id)].uses;
  }
}

template <typename T>
void Tape<T>::backward(const Tensor<T>& output, std::span<const T> upstream,
                       std::optional<std::span<const int>> parameters) {
  const T one = 1;
  if (upstream.empty() && output.count() == 1) upstream = {&one, 1};
  if (!output.needs_gradient() || static_cast<int64_t>(upstream.size()) != output.count()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "backward needs an output that was computed while recording, and its gradient");
  }
  if (gradients_.listener != nullptr) gradients_.listener->backward_begins();
  prepare_walk(parameters);
  if (wants(output)) {
    std::copy(upstream.begin(), upstream.end(), gradient_of(output).values);
    announce_if_final(output.gradient);  // a parameter may be the output
  }
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    const Gradient reached = table_[static_cast<size_t>(record->output)];
    if (reached.written) {
      record->run(record->closure, *this, reached.values);
      arena_.release(reached.values, reached.count);
    }
    for (const int id : inputs_of(*record)) {
      --table_[static_cast<size_t>(id)].uses;
      announce_if_final(id);
    }
  }
}

template struct Tensor<float>;
template struct Tensor<double>;
template class Tape<float>;
template class Tape<double>;

}  // namespace millrace
