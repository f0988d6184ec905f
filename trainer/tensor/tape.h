#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/trainer/model.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/tensor/arena.h"

namespace millrace {

class DropoutMask;

/// The sizes of a tensor, at most four, row-major.
class TensorShape {
 public:
  TensorShape() = default;
  TensorShape(std::initializer_list<int64_t> sizes) : TensorShape(std::span(sizes.begin(), sizes.size())) {}
  /// Throws `kInvalidArgument` for more than four sizes or a negative one.
  explicit TensorShape(std::span<const int64_t> sizes);

  std::span<const int64_t> sizes() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }
  /// Values in all; 1 for a scalar.
  int64_t count() const;
  /// The last size: what most operators work on row by row. 1 for a scalar.
  int64_t columns() const { return rank_ == 0 ? 1 : sizes_[static_cast<size_t>(rank_ - 1)]; }
  /// The product of the sizes before the last.
  int64_t rows() const;

 private:
  std::array<int64_t, 4> sizes_ = {};
  int rank_ = 0;
};

/// A value on a tape: where its numbers lie, and under which number the tape knows its gradient. It owns nothing; valid
/// until the tape begins anew.
template <typename T>
struct Tensor {
  T* values = nullptr;
  TensorShape shape = {};
  int gradient = -1;  ///< -1: none is computed (a constant, an evaluation)

  int64_t rows() const { return shape.rows(); }
  int64_t columns() const { return shape.columns(); }
  int64_t count() const { return shape.count(); }
  bool needs_gradient() const { return gradient >= 0; }
  /// The same values under other sizes, and the same gradient. Throws `kWrongShape` for another number of values.
  Tensor reshaped(const TensorShape& sizes) const;
};

/// Where an operator puts the gradient of one of its inputs.
template <typename T>
struct GradientSlot {
  T* values = nullptr;
  bool add = false;  ///< true: another use wrote first, add to it; false: overwrite
  T beta() const { return add ? T{1} : T{0}; }
};

/// Reverse-mode differentiation (autograd): operators compute their output at once and record how gradients go back
/// through them; `backward` walks the records from the last to the first.
///
///     tape.begin(layout, weights, {.values = gradients, .listener = &listener});
///     Tensor<T> logits = linear(tape, x, tape.parameter(weight), tape.parameter(bias));
///     Tensor<T> loss = cross_entropy(tape, logits, labels).tensor;
///     tape.backward(loss);
///
/// T is float or double; one model's code serves both, and doubles serve to check gradients. Gradients of parameters go
/// straight into the flat buffer; a parameter is announced as final when all operators that use it have been walked (a
/// tied one after its last use). One that none uses is not announced: a training step then says that it has no
/// gradient. The rest lies in the arena, given back when used. One thread at a time; a tape belongs to a replica.
///
/// Two losses of one forward pass, each for parameters of its own (a generator and its discriminator), are two calls:
///
///     tape.backward(generator_loss, {}, generator_ids);
///     tape.backward(discriminator_loss, {}, discriminator_ids);
///
/// Nothing is computed that does not lead to a parameter that is asked for. What another tape or the batch holds (a
/// teacher's output) enters as a `constant`; what a frozen part makes of constants is computed under a `NoGrad`.
template <typename T>
class Tape {
 public:
  explicit Tape(Arena& arena) : arena_(arena) {}

  /// Where gradients go; without them nothing is recorded.
  struct Gradients {
    T* values = nullptr;                   ///< in the layout of the parameters
    GradientListener* listener = nullptr;  ///< may be null
    /// Of what operators keep as `KeptValues`: attention probabilities, the inner values of feed-forward blocks,
    /// normalised values. Default: kFull
    ActivationStorage storage = ActivationStorage::kFull;
  };
  /// Forgets all tensors and resets the arena. `layout`, `weights` and the gradients must stay until the next time.
  void begin(const ParameterLayout& layout, const T* weights, Gradients gradients = {});
  bool recording() const { return gradients_.values != nullptr && !no_grad_; }
  ActivationStorage storage() const { return gradients_.storage; }

  /// While it lives nothing is recorded (`torch.no_grad`): what is computed has no gradient and keeps nothing for a way
  /// back. They may be nested; the tape does not begin meanwhile.
  class NoGrad {
   public:
    explicit NoGrad(Tape& tape) : tape_(tape), before_(std::exchange(tape.no_grad_, true)) {}
    ~NoGrad() { tape_.no_grad_ = before_; }
    NoGrad(const NoGrad&) = delete;
    NoGrad& operator=(const NoGrad&) = delete;

   private:
    Tape& tape_;
    bool before_;
  };

  /// A parameter of the model by its id.
  Tensor<T> parameter(int id) const;
  /// Values that somebody else keeps until the tape begins anew, `shape.count()` of them; they have no gradient.
  Tensor<T> constant(const T* values, const TensorShape& shape) const;
  /// A new tensor, undefined, that has a gradient while the tape records.
  Tensor<T> make(const TensorShape& shape);
  /// Memory for what an operator keeps for its backward pass; it is given back when the tape begins anew.
  template <typename U>
  U* keep(int64_t count) {
    return arena_.template allocate<U>(count);
  }
  /// Gives back the memory of a tensor of this tape that nobody reads again, unless the tape records: then it may be
  /// needed on the way back. Of several under the same memory (`reshaped`) one only.
  void discard(const Tensor<T>& tensor) {
    if (!recording() && !tensor.needs_gradient()) arena_.release(tensor.values, tensor.count());
  }
  /// Says that this dropout draws for its rows. Throws `kInvalidArgument` naming its place when one with the same
  /// random words has done so since the tape began: they would drop alike.
  void take_dropout(const DropoutMask& mask);
  /// The rows of the pass, for messages; they must stay until the tape begins anew.
  void set_rows(const BatchView& rows) { rows_ = &rows; }
  /// What a tensor is called in a message: `'NAME'` of a parameter, empty for others.
  std::string name_of(const Tensor<T>& tensor) const;
  /// Where one of the values that an operator was given (ids, labels) stands, for a message: `feature 'labels', row
  /// 17`, the row counted in the global batch, where they are the feature's own values; else `position 30`.
  std::string place_of(std::span<const int32_t> values, size_t index) const;
  /// Memory for the length of one operator.
  Arena& arena() { return arena_; }

  /// Records how the gradient of `output` becomes that of `inputs`. `backward(tape, dy)` is called with the values of
  /// the output's gradient, once a walk, unless nothing depended on it or no input wants its gradient; it writes, with
  /// `gradient_of`, the gradient of each input that `wants` one. It must be trivially copyable: capture tensors and
  /// pointers by value.
  template <typename Backward>
  void record(std::initializer_list<Tensor<T>> inputs, const Tensor<T>& output, const Backward& backward) {
    record(std::span<const Tensor<T>>(inputs.begin(), inputs.size()), output, backward);
  }
  template <typename Backward>
  void record(std::span<const Tensor<T>> inputs, const Tensor<T>& output, const Backward& backward) {
    static_assert(std::is_trivially_copyable_v<Backward> && std::is_trivially_destructible_v<Backward>);
    if (!output.needs_gradient()) return;
    void* closure = arena_.template allocate<std::byte>(sizeof(Backward));
    add_record(inputs, output, new (closure) Backward(backward),
               [](const void* self, Tape& tape, const T* dy) { (*static_cast<const Backward*>(self))(tape, dy); });
  }
  /// During a walk: whether the gradient of `tensor` leads to a parameter that is asked for.
  bool wants(const Tensor<T>& tensor) const {
    return tensor.needs_gradient() && table_[static_cast<size_t>(tensor.gradient)].wanted;
  }
  /// Where the gradient of `tensor` (which `wants` one) goes. Each call counts as a write.
  GradientSlot<T> gradient_of(const Tensor<T>& tensor);

  /// Walks back from `output`. `upstream` is its gradient, as many values; Default: 1, for an output of one value.
  /// `parameters`: ids of those whose gradients are computed and announced, perhaps none. Default: all. Throws
  /// `kInvalidArgument` when the output was not computed while recording, or a parameter has been asked for since
  /// `begin` before.
  void backward(const Tensor<T>& output, std::span<const T> upstream = {},
                std::optional<std::span<const int>> parameters = std::nullopt);

 private:
  using Run = void (*)(const void* closure, Tape& tape, const T* dy);
  struct Record {
    Run run = nullptr;
    const void* closure = nullptr;
    int output = -1;
    int first_input = 0;  // in inputs_
    int num_inputs = 0;
  };
  struct Gradient {
    T* values = nullptr;
    int64_t count = 0;
    bool written = false;
    bool wanted = false;
    bool walked = false;  // a parameter that some walk was asked for
    int uses = 0;         // records that have it as an input and are still to be walked
  };

  void add_record(std::span<const Tensor<T>> inputs, const Tensor<T>& output, const void* closure, Run run);
  std::span<const int> inputs_of(const Record& record) const {
    return std::span(inputs_).subspan(static_cast<size_t>(record.first_input), static_cast<size_t>(record.num_inputs));
  }
  void prepare_walk(std::optional<std::span<const int>> parameters);
  void announce_if_final(int id);

  Arena& arena_;
  const ParameterLayout* layout_ = nullptr;
  const T* weights_ = nullptr;
  const BatchView* rows_ = nullptr;
  Gradients gradients_;
  bool no_grad_ = false;
  std::vector<Gradient> table_;  // the parameters first, by id
  std::vector<Record> records_;
  std::vector<int> inputs_;
  std::vector<std::pair<uint64_t, int64_t>> dropouts_;  // keys and first rows since it began
};

extern template struct Tensor<float>;
extern template struct Tensor<double>;
extern template class Tape<float>;
extern template class Tape<double>;

}  // namespace millrace
