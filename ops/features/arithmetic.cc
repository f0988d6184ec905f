#include "millrace/ops/features/arithmetic.h"

#include <cmath>
#include <type_traits>

#include <fmt/format.h>

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

size_t checked_column(const Schema& schema, std::string_view feature, bool whole, int64_t k, bool modulo) {
  const auto column = static_cast<size_t>(schema.column(feature));
  const DType dtype = schema[column].dtype;
  if (dtype == DType::kBytes) refuse(fmt::format("arithmetic: feature '{}' is bytes", feature));
  if (dtype != DType::kFloat32 && !whole) {
    refuse(fmt::format("arithmetic: feature '{}' is {}; k must be an integer", feature, to_string(dtype)));
  }
  if (is_integer(dtype) && !holds_integer(dtype, k)) {
    refuse(fmt::format("arithmetic: k = {} does not fit feature '{}' of type {}", k, feature, to_string(dtype)));
  }
  if (modulo && whole && k == 0) refuse("arithmetic: modulo 0");
  return column;
}

template <typename T>
T calculate(Arithmetic what, T x, T k) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (what) {
      case Arithmetic::kAdd: return x + k;
      case Arithmetic::kMultiply: return x * k;
      case Arithmetic::kModulo: {
        // fmod is exact, `x - k * floor(x / k)` is not. A small remainder and k may round to k, which is 0 again.
        const T remainder = std::fmod(x, k);
        return (x < 0) == (k < 0) ? remainder : std::fmod(remainder + k, k);
      }
    }
  } else {
    // 64-bit and unsigned: products of smaller ones would be computed in int.
    const auto a = static_cast<uint64_t>(x);
    const auto b = static_cast<uint64_t>(k);
    switch (what) {
      case Arithmetic::kAdd: return static_cast<T>(a + b);
      case Arithmetic::kMultiply: return static_cast<T>(a * b);
      case Arithmetic::kModulo: {
        if constexpr (std::is_unsigned_v<T>) return static_cast<T>(x % k);
        if (k == T(-1)) return 0;  // the smallest number divided by it would overflow
        const auto remainder = static_cast<T>(x % k);
        return remainder != 0 && (remainder < 0) != (k < 0) ? static_cast<T>(remainder + k) : remainder;
      }
    }
  }
  return x;
}

template <typename T>
Column calculated(const Column& column, Arithmetic what, T k, BufferPool& pool) {
  Column result = Column::like(pool, column.dtype(), column);
  const std::span<const T> from = column.values<T>();
  const std::span<T> to = result.mutable_values<T>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = calculate(what, from[i], k);
  return result;
}

}  // namespace

ArithmeticOperator::ArithmeticOperator(const SchemaPtr& schema, std::string_view feature, Arithmetic what,
                                       const std::variant<int64_t, double>& k)
    : MapOperator(schema), what_(what), whole_(std::holds_alternative<int64_t>(k)) {
  integer_ = whole_ ? std::get<int64_t>(k) : 0;
  number_ = whole_ ? static_cast<double>(integer_) : std::get<double>(k);
  column_ = checked_column(*schema, feature, whole_, integer_, whole_ && what == Arithmetic::kModulo);
  if (!whole_ && what == Arithmetic::kModulo && number_ == 0) refuse("arithmetic: modulo 0");
}

std::string_view ArithmeticOperator::name() const {
  switch (what_) {
    case Arithmetic::kAdd: return "add";
    case Arithmetic::kMultiply: return "multiply";
    case Arithmetic::kModulo: return "modulo";
  }
  return "arithmetic";
}

Block ArithmeticOperator::apply(Block block, BufferPool& pool) const {
  Column& column = block.mutable_columns()[column_];
  visit_dtype(column.dtype(), [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      column = calculated(column, what_, static_cast<T>(integer_), pool);
    } else if constexpr (std::is_floating_point_v<T>) {
      column = calculated(column, what_, static_cast<T>(number_), pool);
    }
  });
  return block;
}

}  // namespace millrace
