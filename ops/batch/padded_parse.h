#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "millrace/formats/example/parser.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

/// Makes padded batches of raw records, each value decoded once, to its place: parse_example and padded_batch in one.
/// Lengths come from the packed lists, before anything is decoded. Thread-safe.
class PaddedParse {
 public:
  /// `rules`: of the parser's columns. `schema`: of the batches. `budget`: most bytes of one feature of a batch. Parser
  /// and pool must outlive it.
  PaddedParse(const ExampleParser& parser, std::span<const Padding::Rule> rules, SchemaPtr schema, BufferPool& pool,
              int64_t budget);

  /// Whether it can: all features are scalars and vectors of numbers.
  static bool takes(const ExampleParser& parser);
  /// Batches of `rows` records each. Nothing where a record is not plain (`ExampleParser::find_packed`) or not valid,
  /// or a batch would be too large: those who parse first and pad then know what to do with it.
  std::optional<Block> operator()(const Block& records, size_t rows) const;

 private:
  struct Lists;
  // The lengths to which the batches are padded in a feature (1 of scalars), or nothing.
  std::optional<std::vector<int64_t>> lengths_of(size_t feature, const Lists& lists, size_t rows) const;
  template <typename T>
  std::optional<Column> decode(size_t feature, const Lists& lists, size_t rows, std::span<const int64_t> lengths) const;

  const ExampleParser& parser_;
  std::vector<Padding::Rule> rules_;
  SchemaPtr schema_;
  BufferPool& pool_;
  int64_t budget_;
};

}  // namespace millrace
