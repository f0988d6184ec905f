#include "benchmarks/floor/mlm_writer.h"

#include "benchmarks/workload_features.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/ops/tokens/mask_tokens.h"
#include "millrace/ops/tokens/row_masker.h"

namespace millrace {
namespace {

class MlmBatchWriter final : public BatchWriter {
 public:
  MlmBatchWriter(std::shared_ptr<const ExampleParser> parser, const MaskTokensOptions& options)
      : parser_(std::move(parser)),
        seed_(options.seed),
        special_tokens_(options.special_tokens.begin(), options.special_tokens.end()),
        rule_(mask_rule(options, special_tokens_)),
        length_(static_cast<size_t>(parser_->columns()[0].shape[0])),
        original_(length_) {}

  void write(const ScheduledBatch& batch, std::span<const std::string_view> records, FloorBatch& out) override {
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(records.size()), static_cast<int64_t>(length_)};
    for (size_t c = 0; c < 3; ++c) out.begin_column(c, shape);
    auto* ids = out.values<int32_t>(0);
    auto* attention = out.values<int64_t>(1);
    auto* labels = out.values<int32_t>(2);
    const CounterRng rng(seed_, operator_id("mask_tokens"), batch.iteration);
    RowMasker<int32_t> masker(rule_, rng, memory_);
    for (size_t i = 0; i < records.size(); ++i) {
      const size_t offset = i * length_;
      const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(original_.data()),
                                                reinterpret_cast<std::byte*>(attention + offset)};
      if (auto error = parser_->parse(records[i], pool_, places, {}, next_of(records, i)))
        throw ErrorException(*std::move(error));
      masker.mask({.number = static_cast<uint64_t>(batch.ordinal) + i,
                   .original = original_,
                   .attention = attention + offset,
                   .ids = ids + offset,
                   .labels = labels + offset});
    }
    masker.finish();
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
  const uint64_t seed_;
  const std::vector<int32_t> special_tokens_;
  const MaskRule rule_;
  const size_t length_;
  std::vector<int32_t> original_;  // the ids of one row
  BufferPool pool_;
  RowMasker<int32_t>::Memory memory_{pool_};
};

}  // namespace

BatchWriting mlm_writing(uint64_t seed) {
  const auto parser = std::make_shared<const ExampleParser>(mlm_features());
  std::vector<FeatureSpec> features = parser->columns();
  features.push_back({"labels", DType::kInt32, features[0].shape});
  return {std::make_shared<const Schema>(std::move(features)),
          [parser, seed] { return std::make_unique<MlmBatchWriter>(parser, mlm_masking(seed)); }};
}

}  // namespace millrace
