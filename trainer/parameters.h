#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace millrace {

/// One named tensor of a model and where it lies in a flat buffer.
struct Parameter {
  std::string name = {};            ///< unique in its layout, for example `encoder.layer.0.attention.self.query.weight`
  std::vector<int64_t> shape = {};  ///< as the model declares it; empty for a scalar
  std::string second_name = {};     ///< files hold its values under this name as well; empty: under its own only
  int loss = 0;                     ///< which of the model's losses trains it, see `StepResult::loss`. Default: 0
  int64_t offset = 0;               ///< first element, in floats from the start of the flat buffer; a multiple of 16
  int64_t size = 0;                 ///< elements
};

/// A piece of the flat buffer that is reduced and updated as one. It may hold several parameters, or a part of one; all
/// of the same loss.
struct Bucket {
  int64_t begin = 0;                 ///< first float; a multiple of 16
  int64_t end = 0;                   ///< one past the last float; a multiple of 16
  std::vector<int> parameters = {};  ///< ids of the parameters that have elements in it, in the order of the layout
  int loss = 0;                      ///< of its parameters
};

/// The floats of a bucket in a flat buffer.
inline std::span<float> part_of(std::span<float> buffer, const Bucket& bucket) {
  return buffer.subspan(static_cast<size_t>(bucket.begin), static_cast<size_t>(bucket.end - bucket.begin));
}

/// Where each parameter of a model lies. Weights, gradients and optimizer slots all have this layout, so that one index
/// means the same parameter everywhere, and updates run over plain ranges of floats.
///
/// Parameters lie in reverse order of registration: a model registers them in the order of its forward pass, so the
/// gradients that backward finishes first lie together at the front. Each starts on a 64-byte boundary; the gaps in
/// between stay 0 in every buffer.
///
///     ParameterLayout layout;
///     int weight = layout.add("dense.weight", {10, 4});
///     int bias = layout.add("dense.bias", {10});
///     layout.finish(1 << 20);
///     FlatBuffer weights(layout.size());
///     float* w = weights.data() + layout.parameters()[weight].offset;
///
/// Immutable after `finish`, and then safe to read from any thread. Nothing of it is in a checkpoint but the names and
/// shapes.
class ParameterLayout {
 public:
  /// Registers a parameter; returns its id, which counts from 0. `loss`: the one of the model's losses whose gradient
  /// it follows (0 for the generator, 1 for the discriminator); Default: 0. Throws `kInvalidArgument` for a name that
  /// is taken or empty, a dimension below 1, a negative loss, more than 2^37 floats in all, or after `finish`.
  int add(std::string name, std::vector<int64_t> shape, int loss = 0);
  /// Names a parameter a second time, for readers of its files that know it under both names. Throws `kInvalidArgument`
  /// as `add` does.
  void add_second_name(int id, std::string name);

  /// Lays everything out and cuts it into buckets of at most about `bucket_bytes` bytes (a parameter that is larger
  /// spans several). Called once. Throws `kInvalidArgument` for fewer than 64 bytes.
  void finish(int64_t bucket_bytes = int64_t{1} << 20);

  /// All parameters by id, that is in order of registration. Offsets are valid after `finish`.
  std::span<const Parameter> parameters() const { return parameters_; }
  /// Losses that parameters follow: one more than the highest number.
  int num_losses() const { return num_losses_; }
  /// The buckets from the front of the buffer to its end: the order in which backward finishes them.
  std::span<const Bucket> buckets() const { return buckets_; }
  /// The same for some of the parameters only, given by their ids: the others lie in none. After `finish`.
  std::vector<Bucket> buckets_of(const std::function<bool(int id)>& included) const;
  /// Floats in a flat buffer, gaps included; a multiple of 16. Throws `kInvalidArgument` before `finish`, so that a
  /// model which forgets it is refused by whatever makes a buffer for it.
  int64_t size() const;
  /// Elements of all parameters, without gaps.
  int64_t num_elements() const;
  /// The id of a parameter, if there is one of that name or second name.
  std::optional<int> find(std::string_view name) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  std::unordered_map<std::string, int> ids_;
  int64_t size_ = 0;
  int64_t bucket_limit_ = 0;  // floats
  int num_losses_ = 1;
  bool finished_ = false;
};

/// Values on a 64-byte boundary, 0 at first: weights, gradients, one optimizer slot. What is never touched costs no
/// memory (of large buffers), so parts that belong to frozen parameters are free. Move-only. T is float or double.
template <typename T>
class FlatValues {
 public:
  FlatValues() = default;
  /// Throws std::bad_alloc when the system has no memory for `size` values.
  explicit FlatValues(int64_t size);
  FlatValues(FlatValues&& other) noexcept;
  FlatValues& operator=(FlatValues&& other) noexcept;

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }
  std::span<T> span() { return {data_, static_cast<size_t>(size_)}; }
  std::span<const T> span() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  T* data_ = nullptr;  // the first boundary in it
  int64_t size_ = 0;
};

using FlatBuffer = FlatValues<float>;

}  // namespace millrace
