#include "benchmarks/floor/mlm_writer.h"

#include <algorithm>

#include "benchmarks/workload_features.h"
#include "formats/error.h"
#include "formats/example/parser.h"
#include "ops/mask_row.h"
#include "ops/philox_words.h"

namespace millrace {
namespace {

constexpr uint64_t kRandomIdDraws = uint64_t{1} << 32;  // as of MaskTokensOperator
constexpr size_t kRowsAtOnce = 16;

class MlmBatchWriter final : public BatchWriter {
 public:
  MlmBatchWriter(std::shared_ptr<const ExampleParser> parser, const MaskTokensOptions& options)
      : parser_(std::move(parser)),
        options_(options),
        special_tokens_(options.special_tokens.begin(), options.special_tokens.end()),
        rule_{.mask_below = chance(options.probability * options.mask_share),
              .random_below = chance(options.probability * std::min(1.0, options.mask_share + options.random_share)),
              .chosen_below = chance(options.probability),
              .mask_token = static_cast<int32_t>(options.mask_token),
              .special_tokens = special_tokens_},
        length_(static_cast<size_t>(parser_->columns()[0].shape[0])),
        original_(length_),
        words_((length_ + 3) / 4 * 4),
        drawn_(kRowsAtOnce * drawn_bytes(length_)),
        positions_(length_ + 4) {}

  void write(const ScheduledBatch& batch, std::span<const std::string_view> records, FloorBatch& out) override {
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(records.size()), static_cast<int64_t>(length_)};
    for (size_t c = 0; c < 3; ++c) out.begin_column(c, shape);
    auto* ids = out.values<int32_t>(0);
    auto* attention = out.values<int64_t>(1);
    auto* labels = out.values<int32_t>(2);
    const CounterRng rng(options_.seed, operator_id("mask_tokens"), batch.iteration);
    const auto first_ordinal = static_cast<uint64_t>(batch.ordinal);
    for (size_t first = 0; first < records.size(); first += kRowsAtOnce) {
      const size_t end = std::min(records.size(), first + kRowsAtOnce);
      for (size_t i = first; i < end; ++i) {
        const size_t offset = i * length_;
        const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(original_.data()),
                                                  reinterpret_cast<std::byte*>(attention + offset)};
        if (auto error = parser_->parse(records[i], places, {}, next_of(records, i)))
          throw ErrorException(*std::move(error));
        philox_words(rng, first_ordinal + i, (length_ + 3) / 4, words_);
        mask_row(rule_, original_.data(), attention + offset, words_.data(), length_, ids + offset, labels + offset,
                 drawn_of(i - first));
      }
      // As the engine does: those of some rows at once.
      draws_.clear();
      for (size_t i = first; i < end; ++i) {
        const size_t count = list_drawn(drawn_of(i - first), positions_.data());
        for (size_t p = 0; p < count; ++p) draws_.push_back({first_ordinal + i, kRandomIdDraws + positions_[p]});
      }
      words_.resize(std::max(words_.size(), draws_.size()));
      philox_first_words(rng, draws_, words_);
      for (size_t i = 0; i < draws_.size(); ++i) {
        ids[(draws_[i].ordinal - first_ordinal) * length_ + draws_[i].draw - kRandomIdDraws] =
            static_cast<int32_t>(uniform_below(words_[i], static_cast<uint32_t>(options_.vocab_size)));
      }
    }
  }

 private:
  std::span<uint8_t> drawn_of(size_t row) {
    return std::span(drawn_).subspan(row * drawn_bytes(length_), drawn_bytes(length_));
  }

  const std::shared_ptr<const ExampleParser> parser_;
  const MaskTokensOptions options_;
  const std::vector<int32_t> special_tokens_;
  const MaskRule rule_;
  const size_t length_;
  std::vector<int32_t> original_;  // the ids of one row
  std::vector<uint32_t> words_;
  // Of some rows: random ids to be drawn.
  std::vector<uint8_t> drawn_;
  std::vector<uint32_t> positions_;  // of a row
  std::vector<Draw> draws_;
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
