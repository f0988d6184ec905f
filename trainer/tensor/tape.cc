#include "trainer/tensor/tape.h"

#include <algorithm>

#include <fmt/format.h>

#include "formats/error.h"

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
void Tape<T>::begin(const ParameterLayout& layout, const T* weights, Gradients gradients) {
  arena_.reset();
  layout_ = &layout;
  weights_ = weights;
  gradients_ = gradients;
  table_.clear();
  records_.clear();
  inputs_.clear();
  if (!recording()) return;
  for (const Parameter& parameter : layout.parameters()) {
    table_.push_back({.values = gradients.values + parameter.offset, .count = parameter.size});
  }
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
Tensor<T> Tape<T>::make(const TensorShape& shape) {
  Tensor<T> tensor{.values = arena_.allocate<T>(shape.count()), .shape = shape};
  if (recording()) {
    tensor.gradient = static_cast<int>(table_.size());
    table_.push_back({.count = shape.count()});
  }
  return tensor;
}

template <typename T>
void Tape<T>::add_record(std::initializer_list<Tensor<T>> inputs, const Tensor<T>& output, const void* closure,
                         Run run) {
  Record record{
      .run = run, .closure = closure, .output = output.gradient, .first_input = static_cast<int>(inputs_.size())};
  for (const Tensor<T>& input : inputs) {
    if (!input.needs_gradient()) continue;
    inputs_.push_back(input.gradient);
    ++table_[static_cast<size_t>(input.gradient)].uses;
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
  if (static_cast<size_t>(id) >= num_parameters || table_[static_cast<size_t>(id)].uses > 0) return;
  Gradient& gradient = table_[static_cast<size_t>(id)];
  if (!gradient.written) std::fill_n(gradient.values, gradient.count, T{0});
  if (gradients_.listener != nullptr) gradients_.listener->gradient_final(id);
}

template <typename T>
void Tape<T>::backward(const Tensor<T>& output, std::span<const T> upstream) {
  const T one = 1;
  if (upstream.empty() && output.count() == 1) upstream = {&one, 1};
  if (!output.needs_gradient() || static_cast<int64_t>(upstream.size()) != output.count()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "backward needs an output that was computed while recording, and its gradient");
  }
  std::copy(upstream.begin(), upstream.end(), gradient_of(output).values);
  for (int id = 0; id < static_cast<int>(layout_->parameters().size()); ++id) announce_if_final(id);
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    const Gradient reached = table_[static_cast<size_t>(record->output)];
    if (reached.written) {
      record->run(record->closure, *this, reached.values);
      arena_.release(reached.values, reached.count);
    }
    for (int input = 0; input < record->num_inputs; ++input) {
      const int id = inputs_[static_cast<size_t>(record->first_input) + static_cast<size_t>(input)];
      --table_[static_cast<size_t>(id)].uses;
      announce_if_final(id);
    }
  }
}

template class Tape<float>;
template class Tape<double>;

}  // namespace millrace
