#include "millrace/formats/example/feature_columns.h"

#include <algorithm>
#include <numeric>

#include "millrace/formats/example/wire.h"

namespace millrace::wire {
namespace {

std::string_view name_of_list(const Partition& partition) {
  switch (partition.kind) {
    case Partition::kRowSplits: return "row splits";
    case Partition::kRowLengths: return "row lengths";
    case Partition::kRowStarts: return "row starts";
    case Partition::kRowLimits: return "row limits";
    default: return "row ids";
  }
}

[[noreturn]] void misfit(std::string what) { throw Malformed{std::move(what), nullptr, ErrorCode::kWrongShape}; }

// Of one list of an Example, which may have as many as a record has bytes.
using Numbers = CountedVector<int64_t>;

Numbers no_numbers(BufferPool& pool) { return Numbers(CountedAllocator<int64_t>(pool)); }

Numbers read_numbers(const ValueList& list, std::string_view key, bool& after_packed, BufferPool& pool) {
  check_kind(list, DType::kInt64, key);
  Numbers numbers(static_cast<size_t>(count_values(list)), 0, CountedAllocator<int64_t>(pool));
  if (!list.kind) return numbers;
  const auto capacity = static_cast<int64_t>(numbers.size());
  after_packed |= read_values(list, DType::kInt64, capacity, reinterpret_cast<std::byte*>(numbers.data())).after_packed;
  return numbers;
}

/// How values are cut into rows, and those into rows again.
struct Rows {
  int64_t count;  // outermost
  // By partition from the outside in: its row splits, or of uniform rows nothing.
  std::vector<Numbers> splits;
};

// Row splits of `count` rows or values: as TensorFlow makes them, where they cut all of it into rows in order.
Numbers splits_of(const Partition& partition, Numbers numbers, int64_t count, bool validate) {
  const auto refuse = [&](const std::string& why) {
    misfit(fmt::format("the {} '{}' {} of {} rows or values", name_of_list(partition), partition.key, why, count));
  };
  Numbers splits({0}, numbers.get_allocator());
  switch (partition.kind) {
    case Partition::kRowSplits:
    case Partition::kRowLimits:
      // The first split is not looked at.
      if (partition.kind == Partition::kRowSplits && !numbers.empty()) numbers.erase(numbers.begin());
      splits.insert(splits.end(), numbers.begin(), numbers.end());
      break;
    case Partition::kRowStarts:
      if (!numbers.empty()) {
        splits = std::move(numbers);
        splits.push_back(count);
      }
      break;
    case Partition::kRowLengths:
      for (const int64_t length : numbers) {
        if (length < 0 || length > count - splits.back()) refuse(fmt::format("have the length {}", length));
        splits.push_back(splits.back() + length);
      }
      break;
    default: {
      // Each row takes memory, and one number of a few bytes may ask for any number of them.
      constexpr int64_t kMostEmptyRows = 1 << 20;
      if (static_cast<int64_t>(numbers.size()) != count)
        misfit(fmt::format("{} row ids '{}' for {} rows or values", numbers.size(), partition.key, count));
      int64_t rows = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] < 0 || numbers[i] - count >= kMostEmptyRows) refuse(fmt::format("have the row {}", numbers[i]));
        if (validate && i > 0 && numbers[i] < numbers[i - 1]) refuse("do not ascend over those");
        rows = std::max(rows, numbers[i] + 1);
      }
      splits.assign(static_cast<size_t>(rows) + 1, 0);
      for (const int64_t row : numbers) ++splits[static_cast<size_t>(row) + 1];
      std::partial_sum(splits.begin(), splits.end(), splits.begin());
    }
  }
  if (splits.front() != 0 || splits.back() != count || !std::is_sorted(splits.begin(), splits.end())) {
    refuse("do not cut up all");
  }
  return splits;
}

Rows cut(const FeatureDescription& feature, int64_t num_values, std::vector<Numbers> numbers, BufferPool& pool) {
  Rows rows{num_values, {}};
  rows.splits.resize(feature.partitions.size(), no_numbers(pool));
  for (size_t p = feature.partitions.size(); p-- > 0;) {
    const Partition& partition = feature.partitions[p];
    if (partition.kind == Partition::kUniformRowLength) {
      if (rows.count % partition.row_length != 0) {
        misfit(fmt::format("{} rows or values do not make rows of {}", rows.count, partition.row_length));
      }
      rows.count /= partition.row_length;
      continue;
    }
    rows.splits[p] = splits_of(partition, std::move(numbers.back()), rows.count, feature.validate);
    numbers.pop_back();
    rows.count = static_cast<int64_t>(rows.splits[p].size()) - 1;
  }
  return rows;
}

// The sizes of a column's element after its outermost dimensions.
void append_sizes(const FeatureDescription& feature, const std::vector<Numbers>& splits, Numbers& sizes) {
  for (size_t p = 0; p < feature.partitions.size(); ++p) {
    if (feature.partitions[p].kind == Partition::kUniformRowLength) {
      sizes.push_back(feature.partitions[p].row_length);
    } else {
      sizes.insert(sizes.end(), splits[p].begin(), splits[p].end());
    }
  }
}

int64_t num_rows_in(const FeatureDescription& feature, int64_t count) {
  const int64_t stride = num_values(feature.shape);
  if (count % stride != 0) {
    misfit(fmt::format("{} values do not make rows of shape {}", count, to_string(feature.shape)));
  }
  return count / stride;
}

void append_sparse(const FeatureDescription& feature, std::span<const ValueList> lists, ColumnBuilder& indices_column,
                   ColumnBuilder& values_column, bool& after_packed) {
  const size_t dimensions = feature.index_keys.size();
  const int64_t count = count_values(lists[0]);
  const auto num_values = static_cast<size_t>(count);
  BufferPool& pool = values_column.pool();
  std::vector<Numbers> indices;
  for (size_t d = 0; d < dimensions; ++d) {
    indices.push_back(read_numbers(lists[d + 1], feature.index_keys[d], after_packed, pool));
    if (indices[d].size() != num_values) {
      misfit(fmt::format("'{}' has {} indices for {} values", feature.index_keys[d], indices[d].size(), count));
    }
  }
  CountedVector<size_t> order(num_values, 0, CountedAllocator<size_t>(pool));
  std::iota(order.begin(), order.end(), size_t{0});
  const auto before = [&](size_t a, size_t b) {
    for (const Numbers& index : indices) {
      if (index[a] != index[b]) return index[a] < index[b];
    }
    return false;
  };
  // Equal ones stay in order. std::stable_sort takes memory that nobody counts.
  if (!feature.already_sorted) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(a, b) || (a < b && !before(b, a)); });
  }
  const int64_t shape[] = {count, static_cast<int64_t>(dimensions)};
  auto* index = reinterpret_cast<int64_t*>(indices_column.append_space(count * shape[1], shape));
  for (size_t i = 0; i < num_values; ++i) {
    for (size_t d = 0; d < dimensions; ++d) {
      const int64_t at = indices[d][order[i]];
      if (feature.validate && (at < 0 || at >= feature.size[d])) {
        misfit(fmt::format("index {} of '{}' is outside of the size {}", at, feature.index_keys[d],
                           to_string(feature.size)));
      }
      *index++ = at;
    }
    if (feature.validate && i > 0 && !before(order[i - 1], order[i])) {
      misfit(
          fmt::format("index {} of '{}' is there twice or out of order", indices[0][order[i]], feature.index_keys[0]));
    }
  }
  std::byte* const space = values_column.append_space(count, {shape, 1});
  if (count == 0) {
    check_values(lists[0]);
    return;
  }
  const size_t bytes = size_of(feature.dtype);
  const Buffer unsorted = pool.allocate(num_values * bytes);
  after_packed |= read_values(lists[0], feature.dtype, count, unsorted->data()).after_packed;
  for (size_t i = 0; i < num_values; ++i) std::copy_n(unsorted->data() + order[i] * bytes, bytes, space + i * bytes);
}

}  // namespace

std::vector<ListKey> keys_of(const FeatureDescription& feature) {
  std::vector<ListKey> keys{{feature.key, feature.stored}};
  for (const Partition& partition : feature.partitions) {
    if (partition.kind != Partition::kUniformRowLength) keys.push_back({partition.key, DType::kInt64});
  }
  for (const std::string& key : feature.index_keys) keys.push_back({key, DType::kInt64});
  return keys;
}

void check_kind(const ValueList& list, DType stored, std::string_view key) {
  if (!list.kind || *list.kind == stored) return;
  throw Malformed{fmt::format("{}holds {}, expected {}", key.empty() ? "" : fmt::format("'{}' ", key),
                              to_string(*list.kind), to_string(stored)),
                  list.piece.data(), ErrorCode::kParse, key.empty()};
}

void append_feature(const FeatureDescription& feature, std::span<const ValueList> lists,
                    std::span<ColumnBuilder* const> columns, bool& after_packed) {
  check_kind(lists[0], feature.stored);
  if (feature.kind == FeatureDescription::kSparse) {
    append_sparse(feature, lists, *columns[0], *columns[1], after_packed);
    return;
  }
  const int64_t count = count_values(lists[0]);
  std::byte* space = nullptr;
  if (!feature.partitions.empty()) {
    BufferPool& pool = columns[0]->pool();
    std::vector<Numbers> numbers;
    for (const Partition& partition : feature.partitions) {
      if (partition.kind == Partition::kUniformRowLength) continue;
      numbers.push_back(read_numbers(lists[numbers.size() + 1], partition.key, after_packed, pool));
    }
    const Rows rows = cut(feature, count, std::move(numbers), pool);
    Numbers sizes({rows.count}, CountedAllocator<int64_t>(pool));
    append_sizes(feature, rows.splits, sizes);
    space = columns[0]->append_space(count, sizes);
  } else if (feature.kind == FeatureDescription::kFixedLenSequence) {
    Shape shape = feature.shape;
    shape.insert(shape.begin(), num_rows_in(feature, count));
    space = columns[0]->append_space(count, shape);
  } else {
    space = columns[0]->append_space(count, {&count, 1});
  }
  if (!lists[0].kind) return;
  after_packed |= read_values(lists[0], feature.dtype, count, space).after_packed;
}

void append_steps(const FeatureDescription& feature, std::span<const CountedVector<ValueList>> lists,
                  ColumnBuilder& column) {
  const CountedVector<ValueList>& steps = lists[0];
  const auto num_steps = static_cast<int64_t>(steps.size());
  const bool is_dense = feature.kind == FeatureDescription::kFixedLenSequence;
  BufferPool& pool = column.pool();
  Numbers counts = no_numbers(pool);
  int64_t total = 0;
  for (const ValueList& step : steps) {
    check_kind(step, feature.stored);
    counts.push_back(count_values(step));
    total += counts.back();
    if (is_dense && counts.back() != num_values(feature.shape)) {
      misfit(fmt::format("step {} has {} values, shape {} needs {}", counts.size() - 1, counts.back(),
                         to_string(feature.shape), num_values(feature.shape)));
    }
  }
  Numbers sizes({num_steps}, CountedAllocator<int64_t>(pool));
  if (is_dense) {
    sizes.insert(sizes.end(), feature.shape.begin(), feature.shape.end());
  } else if (feature.partitions.empty()) {
    sizes.push_back(0);
    for (const int64_t count : counts) sizes.push_back(sizes.back() + count);
  } else {
    for (size_t l = 1; l < lists.size(); ++l) {
      if (lists[l].size() == steps.size()) continue;
      misfit(fmt::format("'{}' has {} steps, the values have {}", keys_of(feature)[l].key, lists[l].size(), num_steps));
    }
    // The rows of all steps after each other.
    Numbers step_splits({0}, CountedAllocator<int64_t>(pool));
    std::vector<Numbers> splits(feature.partitions.size(), step_splits);
    bool after_packed = false;
    for (size_t s = 0; s < steps.size(); ++s) {
      std::vector<Numbers> numbers;
      for (const Partition& partition : feature.partitions) {
        if (partition.kind == Partition::kUniformRowLength) continue;
        numbers.push_back(read_numbers(lists[numbers.size() + 1][s], partition.key, after_packed, pool));
      }
      const Rows rows = cut(feature, counts[s], std::move(numbers), pool);
      step_splits.push_back(step_splits.back() + rows.count);
      for (size_t p = 0; p < splits.size(); ++p) {
        const int64_t before = splits[p].back();
        for (size_t i = 1; i < rows.splits[p].size(); ++i) splits[p].push_back(before + rows.splits[p][i]);
      }
    }
    sizes.insert(sizes.end(), step_splits.begin(), step_splits.end());
    append_sizes(feature, splits, sizes);
  }
  std::byte* space = column.append_space(total, sizes);
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!steps[s].kind) continue;
    read_values(steps[s], feature.dtype, counts[s], space);
    space += static_cast<size_t>(counts[s]) * size_of(feature.dtype);
  }
}

}  // namespace millrace::wire
