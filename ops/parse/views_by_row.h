#pragma once

#include <string_view>
#include <vector>

#include "millrace/formats/columnar/column.h"

namespace millrace {

/// The views of a `bytes` column, taken out of it to be read row by row. A large buffer that they point into is given
/// back with its last row: of records of megabytes a batch that is being made must not need twice its memory.
///
///     ViewsByRow messages(std::move(column), 1);
///     for (size_t row = 0; row < rows; ++row) {
///       read(messages[row]);
///       messages.done(row);   // none of [0, row] is looked at again
///     }
class ViewsByRow {
 public:
  /// `rows` for each element, one element after the other; rows of elements that have another number hold nothing.
  ViewsByRow(Column&& column, size_t rows);
  size_t size() const { return views_.size(); }
  std::string_view operator[](size_t row) const { return views_[row]; }
  void done(size_t row);

 private:
  struct Held {
    Ref<Resource> resource;
    size_t last_row;
  };

  std::vector<std::string_view> views_;
  std::vector<Held> held_;  // the one that is given back first is the last
};

}  // namespace millrace
