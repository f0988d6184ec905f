#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/columnar/schema.h"
#include "ops/operator.h"

namespace millrace {

/// What `Dataset::check` looks at, and what it asks for.
struct CheckOptions {
  int64_t elements = 1000;  ///< the first ones are read; 0: all, of data that has an end. Default: 1000
  /// Different shapes of elements, all features together: what a compiler of fixed shapes compiles. Default: any number
  std::optional<int64_t> max_distinct_shapes = {};
  /// By feature, the share of its values that may be padding (see `CheckReport::Padding`). Default: any
  std::map<std::string, double> max_padding = {};
  bool fixed_shapes = false;       ///< all shapes must be in the spec already. Default: they may vary
  bool known_cardinality = false;  ///< the number of elements must be known before they are read. Default: need not
  std::function<void(int64_t elements)> on_element = nullptr;  ///< told how many were read. Default: null
};

/// What a dataset is and what its first elements look like.
struct CheckReport {
  struct Shapes {
    std::string shapes;    ///< `input_ids [128,512], labels [128,512]`
    int64_t elements = 0;  ///< that have them
    int64_t first = 0;     ///< number of the first of these
  };
  /// Values at the ends of rows that repeat the last value of their row, twice or more: what padding looks like. A row
  /// is the last dimension; features without one behind the batch, ragged ones and `bytes` have none.
  struct Padding {
    std::string feature;
    std::string value;   ///< the most frequent of these values
    int64_t values = 0;  ///< of the feature, in all
    int64_t padded = 0;  ///< of them at the ends of rows, of the most frequent value
    double share() const { return values == 0 ? 0 : static_cast<double>(padded) / static_cast<double>(values); }
  };

  std::vector<FeatureSpec> spec;
  Cardinality cardinality = Cardinality::unknown();
  std::string remainder;       ///< what becomes of a short last batch: `batch drops it`; empty where nothing batches
  int64_t elements = 0;        ///< that were read
  int64_t rows = 0;            ///< in them
  bool whole = false;          ///< there were no more
  std::vector<Shapes> shapes;  ///< in the order in which they came, the first 65,536
  int64_t elements_of_more_shapes = 0;
  std::vector<Padding> padding;
  std::vector<std::string> broken;  ///< what was asked for and is not so, a sentence each; empty: all is well

  /// A few lines for people.
  std::string to_string() const;
};

}  // namespace millrace
