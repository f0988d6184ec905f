#include "millrace/trainer/run/split.h"

#include "millrace/pipeline/dataset.h"

namespace millrace {

Dataset with_splits(const Dataset& rows, const std::string& key, uint64_t seed, const SplitShares& shares) {
  return rows.map({.name = "split",
                   .writes = {{.name = "split", .dtype = DType::kInt64, .shape = {}}},
                   .function = [=](const RowView& row, RowWriter& out) {
                     out.set("split", static_cast<int64_t>(split_of(row.value<std::string_view>(key), seed, shares)));
                   }});
}

}  // namespace millrace
