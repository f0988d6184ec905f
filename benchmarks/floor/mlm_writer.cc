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
        words_((length_ + 3) / 4 * 4) {}

  void write(const ScheduledBatch& batch, std::span<const std::string_view> records, FloorBatch& out) override {
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(records.size()), static_cast<int64_t>(length_)};
    for (size_t c = 0; c < 3; ++c) out.begin_column(c, shape);
    auto* ids = out.values<int32_t>(0);
    auto* attention = out.values<int64_t>(1);
    auto* labels = out.values<int32_t>(2);
    const CounterRng rng(options_.seed, operator_id("mask_tokens"), batch.iteration);
    const auto first_ordinal = static_cast<uint64_t>(batch.ordinal);
    uint64_t ordinal = first_ordinal;
    auto* const first_ids = ids;
    random_positions_.resize(std::max(random_positions_.size(), records.size() * length_ + 16));
    size_t num_random = 0;
    counts_.clear();
    for (size_t i = 0; i < records.size(); ++i) {
      const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(original_.data()),
                                                reinterpret_cast<std::byte*>(attention)};
      if (auto error = parser_->parse(records[i], places, {}, next_of(records, i)))
        throw ErrorException(*std::move(error));
      philox_words(rng, ordinal, (length_ + 3) / 4, words_);
      counts_.push_back(mask_row(rule_, original_.data(), attention, words_.data(), length_, ids, labels,
                                 random_positions_.data() + num_random));
      num_random += counts_.back();
      ++ordinal;
      ids += length_;
      attention += length_;
      labels += length_;
    }
    // As the engine does: all at once.
    draws_.clear();
    const uint32_t* position = random_positions_.data();
    for (size_t row = 0; row < counts_.size(); ++row) {
      for (size_t i = 0; i < counts_[row]; ++i) draws_.push_back({first_ordinal + row, kRandomIdDraws + *position++});
    }
    words_.resize(std::max(words_.size(), draws_.size()));
    philox_first_words(rng, draws_, words_);
    for (size_t i = 0; i < draws_.size(); ++i) {
      first_ids[(draws_[i].ordinal - first_ordinal) * length_ + draws_[i].draw - kRandomIdDraws] =
          static_cast<int32_t>(uniform_below(words_[i], static_cast<uint32_t>(options_.vocab_size)));
    }
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
  const MaskTokensOptions options_;
  const std::vector<int32_t> special_tokens_;
  const MaskRule rule_;
  const size_t length_;
  std::vector<int32_t> original_;  // the ids of one row
  std::vector<uint32_t> words_;
  // Of the batch: random ids to be drawn, and how many each row has.
  std::vector<uint32_t> random_positions_;
  std::vector<size_t> counts_;
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
