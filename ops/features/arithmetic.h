#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// What `ArithmeticOperator` does to every number of a feature.
enum class Arithmetic {
  kAdd,       ///< x + k
  kMultiply,  ///< x × k
  kModulo,    ///< the floored remainder of x / k: it has the sign of k; of floats exact, and rounded once
};

/// Calculates with a constant on every number of a feature, whatever its shape: int32, int64 or float32. Integers wrap
/// around at the ends of their type.
class ArithmeticOperator : public MapOperator {
 public:
  ArithmeticOperator(const SchemaPtr& schema, std::string_view feature, Arithmetic what,
                     const std::variant<int64_t, double>& k);
  std::string_view name() const override;
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  size_t column_;
  Arithmetic what_;
  bool whole_;  // k is `integer_`, else `number_`
  int64_t integer_;
  double number_;
};

template <Arithmetic kWhat>
class ArithmeticOf final : public ArithmeticOperator {
 public:
  ArithmeticOf(const SchemaPtr& schema, std::string_view feature, const std::variant<int64_t, double>& k)
      : ArithmeticOperator(schema, feature, kWhat, k) {}
};
using AddOperator = ArithmeticOf<Arithmetic::kAdd>;
using MultiplyOperator = ArithmeticOf<Arithmetic::kMultiply>;
using ModuloOperator = ArithmeticOf<Arithmetic::kModulo>;

/// What `Dataset::add` is called with.
struct AddArguments {
  std::string feature = {};
  std::variant<int64_t, double> k = int64_t{0};

  static constexpr auto fields() {
    using A = AddArguments;
    return describe<A>("add", field::required<&A::feature>, field::required<&A::k>);
  }
};

/// What `Dataset::multiply` is called with.
struct MultiplyArguments {
  std::string feature = {};
  std::variant<int64_t, double> k = int64_t{0};

  static constexpr auto fields() {
    using A = MultiplyArguments;
    return describe<A>("multiply", field::required<&A::feature>, field::required<&A::k>);
  }
};

/// What `Dataset::modulo` is called with.
struct ModuloArguments {
  std::string feature = {};
  int64_t k = 0;

  static constexpr auto fields() {
    using A = ModuloArguments;
    return describe<A>("modulo", field::required<&A::feature>, field::required<&A::k>);
  }
};

}  // namespace millrace
