#include "benchmarks/floor/example_writer.h"

#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"

namespace millrace {
namespace {

class ExampleBatchWriter final : public BatchWriter {
 public:
  explicit ExampleBatchWriter(std::shared_ptr<const ExampleParser> parser)
      : parser_(std::move(parser)), shapes_(parser_->columns().size()), places_(parser_->columns().size()) {
    for (size_t c = 0; c < shapes_.size(); ++c) {
      const FeatureSpec& column = parser_->columns()[c];
      shapes_[c].assign(column.shape.begin(), column.shape.end());
      shapes_[c].insert(shapes_[c].begin(), 0);
      row_bytes_.push_back(static_cast<size_t>(num_values(column.shape)) * size_of(column.dtype));
    }
  }

  void write(const ScheduledBatch&, std::span<const std::string_view> records, FloorBatch& out) override {
    for (size_t c = 0; c < shapes_.size(); ++c) {
      shapes_[c][0] = static_cast<int64_t>(records.size());
      places_[c] = out.begin_column(c, shapes_[c]);
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (auto error = parser_->parse(records[i], pool_, places_, {}, next_of(records, i)))
        throw ErrorException(*std::move(error));
      for (size_t c = 0; c < places_.size(); ++c) places_[c] += row_bytes_[c];
    }
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
  BufferPool pool_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<std::byte*> places_;
  std::vector<size_t> row_bytes_;
};

}  // namespace

BatchWriting example_writing(std::vector<FeatureDescription> features) {
  const auto parser = std::make_shared<const ExampleParser>(std::move(features));
  return {std::make_shared<const Schema>(parser->columns()),
          [parser] { return std::make_unique<ExampleBatchWriter>(parser); }};
}

}  // namespace millrace
