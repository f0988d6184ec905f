#include "millrace/trainer/tensor/embedding.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {
namespace {

constexpr size_t kMostLookups = 4;

template <typename T>
struct Lookups {
  std::array<EmbeddingLookup<T>, kMostLookups> values = {};
  size_t count = 0;
};

template <typename T>
void check(const Tape<T>& tape, const EmbeddingLookup<T>& lookup, const EmbeddingLookup<T>& first) {
  const int64_t entries = lookup.table.rows();
  check_shape("table of embedding_sum", lookup.table.shape, {entries, first.table.columns()});
  if (lookup.ids.size() != first.ids.size()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("embedding_sum has {} ids for one table, {} for another",
                                                             lookup.ids.size(), first.ids.size()));
  }
  for (size_t row = 0; row < lookup.ids.size(); ++row) {
    if (lookup.ids[row] >= 0 && lookup.ids[row] < entries) continue;
    const std::string name = tape.name_of(lookup.table);
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("id {} ({}); the table{}{} has {} entries", lookup.ids[row],
                                     tape.place_of(lookup.ids, row), name.empty() ? "" : " ", name, entries));
  }
}

template <typename T>
void scatter(Tape<T>& tape, const EmbeddingLookup<T>& lookup, const T* dy) {
  if (!tape.wants(lookup.table)) return;
  const int64_t columns = lookup.table.columns();
  const GradientSlot<T> slot = tape.gradient_of(lookup.table);
  if (!slot.add) std::fill_n(slot.values, lookup.table.count(), T{0});
  for (size_t row = 0; row < lookup.ids.size(); ++row) {
    if (lookup.ids[row] == lookup.padding_id) continue;
    kernels<T>().add(dy + static_cast<int64_t>(row) * columns, columns, slot.values + lookup.ids[row] * columns);
  }
}

}  // namespace

template <typename T>
Tensor<T> embedding_sum(Tape<T>& tape, std::initializer_list<EmbeddingLookup<T>> lookups) {
  if (lookups.size() == 0 || lookups.size() > kMostLookups) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("embedding_sum takes 1 to {} tables, not {}", kMostLookups, lookups.size()));
  }
  Lookups<T> all;
  for (const EmbeddingLookup<T>& lookup : lookups) {
    check(tape, lookup, *lookups.begin());
    all.values[all.count++] = lookup;
  }
  const auto rows = static_cast<int64_t>(all.values[0].ids.size());
  const int64_t columns = all.values[0].table.columns();
  const Tensor<T> y = tape.make({rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    T* sum = y.values + row * columns;
    for (size_t i = 0; i < all.count; ++i) {
      const T* entry = all.values[i].table.values + all.values[i].ids[static_cast<size_t>(row)] * columns;
      if (i == 0) {
        std::copy_n(entry, columns, sum);
      } else {
        kernels<T>().add(entry, columns, sum);
      }
    }
  }
  // Absent tables need no gradient and so count for nothing.
  tape.record({all.values[0].table, all.values[1].table, all.values[2].table, all.values[3].table}, y,
              [all](Tape<T>& t, const T* dy) {
                for (size_t i = 0; i < all.count; ++i) scatter(t, all.values[i], dy);
              });
  return y;
}

template Tensor<float> embedding_sum(Tape<float>&, std::initializer_list<EmbeddingLookup<float>>);
template Tensor<double> embedding_sum(Tape<double>&, std::initializer_list<EmbeddingLookup<double>>);

}  // namespace millrace
