#include "benchmarks/floor/token_writer.h"

#include <algorithm>

#include "benchmarks/workload_features.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/ops/batch/fill_padding.h"

namespace millrace {
namespace {

class TokenBatchWriter final : public BatchWriter {
 public:
  explicit TokenBatchWriter(std::shared_ptr<const ExampleParser> parser) : parser_(std::move(parser)) {}

  void write(const ScheduledBatch&, std::span<const std::string_view> records, FloorBatch& out) override {
    const auto rows = static_cast<int64_t>(records.size());
    lists_.resize(2 * records.size());
    counts_.resize(records.size());
    // The length of a batch is known when all its rows are.
    int64_t longest = 0;
    for (size_t row = 0; row < records.size(); ++row) {
      if (!parser_->find_packed(records[row], std::span(lists_).subspan(2 * row, 2), next_of(records, row))) refuse();
      counts_[row] = parser_->count_packed(0, lists_[2 * row]);
      longest = std::max(longest, counts_[row]);
    }
    const std::array<int64_t, 2> shape = {rows, longest};
    out.begin_column(0, shape);
    auto* tokens = out.values<int64_t>(0);
    std::byte* label = out.begin_column(1, {&rows, 1});
    for (size_t row = 0; row < records.size(); ++row) {
      if (!parser_->read_packed(0, lists_[2 * row], counts_[row], longest, reinterpret_cast<std::byte*>(tokens)) ||
          !parser_->read_packed(1, lists_[2 * row + 1], 1, 1, label)) {
        refuse();
      }
      fill_padding(std::span(tokens + counts_[row], tokens + longest), int64_t{0});
      tokens += longest;
      label += sizeof(int64_t);
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "the floor of this workload needs records with one packed list of tokens and one label each");
  }

  const std::shared_ptr<const ExampleParser> parser_;
  std::vector<std::string_view> lists_;  // of each record: tokens, label
  std::vector<int64_t> counts_;          // tokens
};

}  // namespace

BatchWriting token_writing() {
  const auto parser = std::make_shared<const ExampleParser>(token_features());
  return {std::make_shared<const Schema>(parser->columns()),
          [parser] { return std::make_unique<TokenBatchWriter>(parser); }};
}

}  // namespace millrace
