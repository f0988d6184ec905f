#pragma once

#include <string>
#include <string_view>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Converts every number of a feature to another type, exactly or rounded as C++ does. An element with a number that
/// the type cannot hold (an integer outside of int32, a float that is no number or out of range) becomes an error.
class CastOperator final : public MapOperator {
 public:
  CastOperator(const SchemaPtr& schema, std::string_view feature, DType to);
  std::string_view name() const override { return "cast"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  size_t column_;
};

/// What `Dataset::cast` is called with.
struct CastArguments {
  std::string feature = {};
  DType to = DType::kInt64;

  static constexpr auto fields() {
    using A = CastArguments;
    return describe<A>("cast", field::required<&A::feature>, field::required<&A::to>);
  }
};

}  // namespace millrace
