// The arguments of the methods that take a function which makes datasets.
#pragma once

#include "millrace/pipeline/dataset.h"

namespace millrace {

/// What `Dataset::flat_map` is called with.
struct FlatMapArguments {
  DatasetFunction function = {};

  static constexpr auto fields() {
    return describe<FlatMapArguments>("flat_map", field::required<&FlatMapArguments::function>);
  }
};

/// What `Dataset::interleave` is called with.
struct InterleaveFunctionArguments {
  DatasetFunction function = {};
  InterleaveOptions options = {};

  static constexpr auto fields() {
    using A = InterleaveFunctionArguments;
    return describe<A>("interleave_function", field::required<&A::function>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
