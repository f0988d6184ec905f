// Packs the sequences of a data set into rows and compares the padding with what first-fit-decreasing of all of them
// has.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/pipeline/dataset.h"
#include "tests/ops/tokens/first_fit_decreasing.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

struct Options {
  std::string shards;
  std::string feature = "tokens";
  int64_t length = 1024;
  int64_t look_ahead = 1000;
  double most_points = 3;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  visible.add_options()("shards", po::value(&options.shards)->required(), "pattern of TFRecord files with Examples");
  // clang-format off
  visible.add_options()
      ("feature", po::value(&options.feature)->default_value(options.feature), "int64 feature with the sequences")
      ("length", whole_number(options.length, {1, limits::kRows}), "of a row")
      ("look-ahead", whole_number(options.look_ahead, {1, limits::kRows}),
       "sequences that may wait for a row")
      ("most-points", real_number(options.most_points, {-100, 100}),
       "percentage points of padding more than first-fit-decreasing that are right");
  // clang-format on
  if (!parse_command_line(
          argc, argv,
          {.name = "pack_padding_test",
           .about = "Packs the sequences of a data set into rows. Prints the share of padding beside that of\n"
                    "first-fit-decreasing of all sequences at once, and checks that each sequence comes\n"
                    "out once, whole. Exit status: 0 when all is right, else 1.",
           .usage = "--shards 'DIR/*.tfrecord' [options]"},
          visible)) {
    return std::nullopt;
  }
  return options;
}

/// A sequence by its length and a hash of its values.
using Sequence = std::pair<size_t, size_t>;

Sequence sequence_of(std::span<const int64_t> values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return {values.size(), std::hash<std::string_view>{}(bytes)};
}

std::vector<Sequence> read_sequences(const Dataset& sequences) {
  std::vector<Sequence> found;
  Pipeline pipeline = sequences.start();
  while (const std::optional<Batch> batch = pipeline.next()) {
    for (size_t e = 0; e < batch->block().num_elements(); ++e) {
      const auto values = batch->block().column(0).values<int64_t>(e);
      if (!values.empty()) found.push_back(sequence_of(values));
    }
  }
  return found;
}

struct Packed {
  size_t rows = 0;
  std::vector<Sequence> sequences;
  bool is_well_formed = true;  // segments count from 1, positions from 0, padding is zeros at the end
};

void take_row(std::span<const int64_t> values, std::span<const int32_t> segments, std::span<const int32_t> positions,
              Packed& packed) {
  ++packed.rows;
  size_t begin = 0;
  for (int32_t segment = 1; begin < values.size() && segments[begin] != 0; ++segment) {
    size_t end = begin;
    for (; end < values.size() && segments[end] == segment; ++end) {
      if (positions[end] != static_cast<int32_t>(end - begin)) packed.is_well_formed = false;
    }
    if (end == begin) {
      packed.is_well_formed = false;
      return;
    }
    packed.sequences.push_back(sequence_of(values.subspan(begin, end - begin)));
    begin = end;
  }
  for (; begin < values.size(); ++begin) {
    if (values[begin] != 0 || segments[begin] != 0 || positions[begin] != 0) packed.is_well_formed = false;
  }
}

Packed read_packed(const Dataset& rows) {
  Packed packed;
  Pipeline pipeline = rows.start();
  while (const std::optional<Batch> batch = pipeline.next()) {
    const Block& block = batch->block();
    for (size_t e = 0; e < block.num_elements(); ++e) {
      take_row(block.column(0).values<int64_t>(e), block.column(1).values<int32_t>(e),
               block.column(2).values<int32_t>(e), packed);
    }
  }
  return packed;
}

int run(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) return 0;
  const Dataset sequences =
      Dataset::tfrecord(Shards::glob(options->shards)).parse_example({var_len(options->feature, DType::kInt64)});
  std::vector<Sequence> expected = read_sequences(sequences);
  Packed packed = read_packed(sequences.pack(options->length, {.look_ahead = options->look_ahead}));
  if (expected.empty()) {
    fmt::print("no sequences\n");
    return 1;
  }

  std::vector<size_t> lengths;
  size_t tokens = 0;
  for (const Sequence& sequence : expected) {
    lengths.push_back(sequence.first);
    tokens += sequence.first;
  }
  const auto length = static_cast<size_t>(options->length);
  const auto padding = [&](size_t rows) {
    return 100 * (1 - static_cast<double>(tokens) / static_cast<double>(rows * length));
  };
  const size_t least_rows = test::first_fit_decreasing(std::move(lengths), length);
  const double points = padding(packed.rows) - padding(least_rows);
  fmt::print("{} sequences, {} tokens, rows of {}\n", expected.size(), tokens, length);
  fmt::print("first-fit-decreasing   {:>8} rows, {:.3f}% padding\n", least_rows, padding(least_rows));
  fmt::print("pack, look-ahead {:<6}{:>8} rows, {:.3f}% padding: {:.3f} points more, {:g} may be\n",
             options->look_ahead, packed.rows, padding(packed.rows), points, options->most_points);

  std::sort(expected.begin(), expected.end());
  std::sort(packed.sequences.begin(), packed.sequences.end());
  const bool complete = packed.is_well_formed && packed.sequences == expected;
  fmt::print("{}\n", complete ? "every sequence comes out once, whole" : "sequences were lost, changed or came twice");
  return complete && points <= options->most_points ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("pack_padding_test", [&] { return millrace::run(argc, argv); });
}
