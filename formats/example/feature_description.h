#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/formats/columnar/schema.h"

namespace millrace {

/// Default values of a feature, flat and row-major.
using FeatureDefault = std::variant<std::monostate, std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;

/// How the values of a feature are cut into rows: by another feature of the record, an int64 list, or evenly.
struct Partition {
  enum Kind {
    kRowSplits,         ///< where each row begins and the last one ends: 0 2 3 3
    kRowLengths,        ///< 2 1 0
    kRowStarts,         ///< 0 2 3
    kRowLimits,         ///< 2 3 3
    kValueRowids,       ///< the row of each value: 0 0 1. The highest decides how many rows there are
    kUniformRowLength,  ///< rows of one length
  };
  Kind kind = kRowSplits;
  std::string key = {};    ///< of the list in the record; not of uniform rows
  int64_t row_length = 0;  ///< of uniform rows
};
[[nodiscard]] Partition row_splits(std::string key);
[[nodiscard]] Partition row_lengths(std::string key);
[[nodiscard]] Partition row_starts(std::string key);
[[nodiscard]] Partition row_limits(std::string key);
[[nodiscard]] Partition value_rowids(std::string key);
[[nodiscard]] Partition uniform_row_length(int64_t length);

/// One feature to take out of a `tensorflow.Example` or `SequenceExample`: its key, how it is stored, and what becomes
/// of it.
///
///     fixed_len("input_ids", {512}, DType::kInt64).as(DType::kInt32).named("ids")
struct FeatureDescription {
  enum Kind {
    kFixedLen,          ///< one shape in every record
    kVarLen,            ///< a vector of any length
    kFixedLenSequence,  ///< any number of rows of one shape
    kRaggedRows,        ///< rows of any lengths, or rows of such rows
    kSparse,            ///< values and, in other lists of the record, their indices
  };
  Kind kind = kFixedLen;
  std::string key = {};                ///< of the values in the record
  std::string name = {};               ///< of the column; of sparse features its beginning
  DType stored = DType::kInt64;        ///< kInt64, kFloat32 or kBytes: the list in the record
  DType dtype = DType::kInt64;         ///< of the column
  Shape shape = {};                    ///< of one record's value, of a kFixedLenSequence that of one row
  FeatureDefault default_values = {};  ///< kFixedLen: in place of a feature that is missing; kFixedLenSequence: padding
  bool allow_missing = false;          ///< kFixedLenSequence: a record without it has no rows
  std::vector<Partition> partitions = {};    ///< kRaggedRows: from the outside in
  std::vector<std::string> index_keys = {};  ///< kSparse: one int64 list for each dimension
  Shape size = {};                           ///< kSparse: of the dense tensor
  bool already_sorted = false;               ///< kSparse: the indices are in order
  bool validate = false;  ///< kRaggedRows: row ids must ascend; kSparse: indices must be inside of `size`, and distinct

  /// The column's type when it is not the stored one: int64 as int32 (a value that does not fit is an error).
  [[nodiscard]] FeatureDescription as(DType type) const;
  /// Another name for the column.
  [[nodiscard]] FeatureDescription named(std::string column) const;
  /// Exactly as many values as the shape has, row-major; of a kFixedLenSequence one value.
  [[nodiscard]] FeatureDescription default_value(FeatureDefault values) const;

  /// The columns of one record: `name`; of a sparse feature `name/indices` int64 [?,dimensions] and `name/values` [?].
  [[nodiscard]] std::vector<FeatureSpec> columns() const;
  /// The same of a feature list: its steps are one dimension more, outside of all others.
  [[nodiscard]] std::vector<FeatureSpec> columns_of_steps() const;

  /// What `explain()` prints: everything that decides the column.
  std::string to_string() const;

  /// Throws `kInvalidArgument` naming operator and feature when type, cast, shape or default cannot work.
  void check(std::string_view operator_name) const;
};

/// A feature of one shape in every record. `stored`: kInt64, kFloat32 or kBytes.
[[nodiscard]] FeatureDescription fixed_len(std::string key, Shape shape, DType stored);

/// A list of any length, none when it is missing: a column of shape [?].
[[nodiscard]] FeatureDescription var_len(std::string key, DType stored);

struct SequenceOptions {
  bool allow_missing = false;  ///< a record without the feature has no rows. In an Example it must be. Default: false
};
/// Any number of rows of shape `row`: a column of shape [?,row…]. In a SequenceExample the steps of a feature list are
/// the rows. What is parsed in batches is padded to the batch's longest with the default value, or 0.
[[nodiscard]] FeatureDescription fixed_len_sequence(std::string key, Shape row, DType stored,
                                                    const SequenceOptions& options = {});

struct RaggedOptions {
  bool validate = false;  ///< refuse row ids that do not ascend, which else count the rows. Default: false
};
/// A list that `partitions`, from the outside in, cut into rows: a column of shape [?] with one dimension more for each
/// of them, ragged or of the uniform length. Partitions that do not fit the values are an error of the record.
///
///     ragged("values", DType::kInt64, {row_lengths("lengths")}).named("r")
///     values 1 2 3 4, lengths 1 0 3   ->   r int64 [?,ragged]: [[1],[],[2,3,4]]
[[nodiscard]] FeatureDescription ragged(std::string value_key, DType stored, std::vector<Partition> partitions = {},
                                        const RaggedOptions& options = {});

struct SparseOptions {
  bool already_sorted = false;  ///< do not sort by index. Default: false
  bool validate = false;        ///< an index outside of `size`, or twice, is an error. Default: false
};
/// Values and their indices in a tensor of shape `size`, one list of indices for each of its dimensions: the columns
/// `name/indices` int64 [?,dimensions], ascending, and `name/values` [?].
[[nodiscard]] FeatureDescription sparse(std::string name, std::vector<std::string> index_keys, std::string value_key,
                                        DType stored, Shape size, const SparseOptions& options = {});

}  // namespace millrace
