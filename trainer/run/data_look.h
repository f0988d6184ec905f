#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/trainer/batch_view.h"
#include "millrace/trainer/callback.h"

namespace millrace {

/// What a program says of a row beside its numbers, such as its text: a line each.
using RowText = std::function<std::vector<std::string>(const BatchView& row)>;

/// A row for people: a line for each feature with dtype, shape and first values, and those of `decoded`, which may be
/// null. Each is cut where it is long, and what is no text for a terminal escaped.
[[nodiscard]] std::string look_at_row(const BatchView& row, const RowText& decoded);

/// Prints the first row of a training on standard error, before it is trained on. The batch stays as it is.
class DataLook final : public Callback {
 public:
  explicit DataLook(RowText decoded) : decoded_(std::move(decoded)) {}
  void batch_inputs(GlobalBatch& batch, int64_t number) override;

 private:
  const RowText decoded_;
};

}  // namespace millrace
