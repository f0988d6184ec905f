#include "benchmarks/floor/token_writer.h"

#include <algorithm>

#include "benchmarks/workload_features.h"
#include "formats/error.h"
#include "formats/example/parser.h"

namespace millrace {
namespace {

class TokenBatchWriter final : public BatchWriter {
 public:
  explicit TokenBatchWriter(std::shared_ptr<const ExampleParser> parser)
      : parser_(std::move(parser)), tokens_(pool_, parser_->columns()[0]) {}

  void write(const ScheduledBatch&, std::span<const std::string_view> records, FloorBatch& out) override {
    const auto rows = static_cast<int64_t>(records.size());
    std::array<std::byte*, 2> places = {nullptr, out.begin_column(1, {&rows, 1})};
    const std::array<ColumnBuilder*, 2> builders = {&tokens_, nullptr};
    for (size_t i = 0; i < records.size(); ++i) {
      if (auto error = parser_->parse(records[i], places, builders, next_of(records, i)))
        throw ErrorException(*std::move(error));
      places[1] += sizeof(int64_t);
    }
    // The length of a batch is known when all its rows are.
    const Column tokens = tokens_.finish();
    int64_t longest = 0;
    for (size_t row = 0; row < records.size(); ++row) longest = std::max(longest, tokens.num_values(row));
    const std::array<int64_t, 2> shape = {rows, longest};
    out.begin_column(0, shape);
    auto* place = out.values<int64_t>(0);
    for (size_t row = 0; row < records.size(); ++row) {
      const std::span<const int64_t> values = tokens.values<int64_t>(row);
      std::fill(std::copy(values.begin(), values.end(), place), place + longest, 0);
      place += longest;
    }
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
  BufferPool pool_;
  ColumnBuilder tokens_;  // of the rows of one batch
};

}  // namespace

BatchWriting token_writing() {
  const auto parser = std::make_shared<const ExampleParser>(token_features());
  return {std::make_shared<const Schema>(parser->columns()),
          [parser] { return std::make_unique<TokenBatchWriter>(parser); }};
}

}  // namespace millrace
