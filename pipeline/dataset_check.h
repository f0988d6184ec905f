#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/columnar/schema.h"
#include "millrace/ops/operator.h"
#include "millrace/pipeline/padding_count.h"

namespace millrace {

/// What `Dataset::check` looks at, and what it asks for.
struct CheckOptions {
  int64_t elements = 1000;  ///< the first ones are read; 0: all, of data that has an end. Default: 1000
  /// Different shapes of elements, all features together: what a compiler of fixed shapes compiles. Default: any number
  std::optional<int64_t> max_distinct_shapes = {};
  /// By feature, as the operators that pad name it, the share of its values that may be padding (see
  /// `CheckReport::padding`). Default: any
  std::map<std::string, double> max_padding = {};
  bool fixed_shapes = false;       ///< all shapes must be in the spec already. Default: they may vary
  bool known_cardinality = false;  ///< the number of elements must be known before they are read. Default: need not
  std::function<void(int64_t elements)> on_element =
      nullptr;  ///< called with the elements read so far, those to count padding too. Default: null
};

/// What a dataset is and what its first elements look like.
struct CheckReport {
  struct Shapes {
    std::string shapes = {};  ///< `input_ids [128,512], labels [128,512]`
    int64_t elements = 0;     ///< that have them
    int64_t first = 0;        ///< number of the first of these
  };

  std::vector<FeatureSpec> spec = {};
  Cardinality cardinality = Cardinality::unknown();
  /// What becomes of a short last batch, of those nearest to the output on each way to it: `batch drops it`, of several
  /// `batch drops it, padded_batch keeps it`; empty where nothing batches.
  std::string remainder = {};
  int64_t elements = 0;             ///< that were read
  int64_t rows = 0;                 ///< in them
  bool whole = false;               ///< there were no more
  std::vector<Shapes> shapes = {};  ///< in the order in which they came, the first 65,536
  int64_t elements_of_more_shapes = 0;
  /// How many values the operators that pad put in, sources first: of the first elements that each made, until they had
  /// as many rows as were read. What comes after such an operator does not change it. Empty: no operator pads.
  std::vector<PaddingCount> padding = {};
  /// Features of which the elements that were read have no value at all, such as a `var_len` whose name is misspelt: it
  /// is empty where a record has no feature of its name. Padding, and a `default_value`, count as values.
  std::vector<std::string> without_values = {};
  std::vector<std::string> broken = {};  ///< what was asked for and is not so, a sentence each; empty: all is well

  /// A few lines for people.
  std::string to_string() const;
};

}  // namespace millrace
