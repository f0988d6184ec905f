#pragma once

#include <string>
#include <string_view>

#include "ops/operator.h"

namespace millrace {

/// What `ArithmeticOperator` does to every number of a feature.
enum class Arithmetic {
  kAdd,       ///< x + k
  kMultiply,  ///< x × k
  kModulo,    ///< the floored remainder of x / k: it has the sign of k; of floats exact, and rounded once
};

/// Calculates with a constant on every number of a feature, whatever its shape: int32, int64 or float32. Integers wrap
/// around at the ends of their type.
class ArithmeticOperator final : public MapOperator {
 public:
  ArithmeticOperator(const SchemaPtr& schema, std::string_view feature, Arithmetic what, int64_t k);
  ArithmeticOperator(const SchemaPtr& schema, std::string_view feature, Arithmetic what, double k);
  std::string_view name() const override;
  bool never_waits() const override { return true; }
  std::string arguments() const override;
  Block apply(Block block, BufferPool& pool) const override;

 private:
  size_t column_;
  Arithmetic what_;
  bool whole_;  // k is `integer_`, else `number_`
  int64_t integer_;
  double number_;
};

}  // namespace millrace
