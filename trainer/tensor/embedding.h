#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Rows looked up in one table.
template <typename T>
struct EmbeddingLookup {
  Tensor<T> table = {};               ///< `[entries, columns]`
  std::span<const int32_t> ids = {};  ///< which entry for each row; must outlive the tape's step
  int32_t padding_id = -1;            ///< an entry that gets no gradient from here. Default: -1, none
};

/// The sum of what up to four lookups give: `y[i] = sum over lookups of table[ids[i]]`, `[ids, columns]`. Throws
/// `kWrongShape` when tables or numbers of ids differ, `kInvalidArgument` for an id outside its table, naming it (a
/// parameter) and where the id stands: feature and row of the global batch where `ids` are a feature's own values, else
/// its place among them.
template <typename T>
Tensor<T> embedding_sum(Tape<T>& tape, std::initializer_list<EmbeddingLookup<T>> lookups);

}  // namespace millrace
