#include "ops/mask_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/counter_rng.h"
#include "ops/philox_words.h"

namespace millrace {
namespace {

// Draws from here on give random ids; below, the choices of positions.
constexpr uint64_t kRandomIdDraws = uint64_t{1} << 32;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "mask_tokens: " + why);
}

bool is_integer(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

void check_feature(const FeatureSpec& feature) {
  if (!is_integer(feature.dtype)) {
    refuse(fmt::format("feature '{}' is {}, needs int32 or int64", feature.name, to_string(feature.dtype)));
  }
  if (feature.shape.empty() || feature.shape.size() > 2 || feature.is_ragged()) {
    refuse(fmt::format("feature '{}' has shape {}, needs [length] or [rows,length]", feature.name,
                       to_string(feature.shape)));
  }
}

SchemaPtr masked_schema(const Schema& input, const MaskTokensOptions& options) {
  std::vector<FeatureSpec> features = input.features();
  if (input.find(options.labels) >= 0) refuse(fmt::format("there is a feature '{}' already", options.labels));
  const FeatureSpec& ids = input[static_cast<size_t>(input.column(options.input_ids))];
  check_feature(ids);
  if (!options.attention_mask.empty()) {
    const FeatureSpec& attention = input[static_cast<size_t>(input.column(options.attention_mask))];
    check_feature(attention);
    if (attention.dtype != DType::kInt64) refuse(fmt::format("feature '{}' must be int64", attention.name));
    if (attention.shape != ids.shape) {
      refuse(fmt::format("'{}' has shape {}, '{}' {}", ids.name, to_string(ids.shape), attention.name,
                         to_string(attention.shape)));
    }
  }
  features.push_back({options.labels, ids.dtype, ids.shape});
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

MaskTokensOperator::MaskTokensOperator(const SchemaPtr& input, MaskTokensOptions options, uint64_t occurrence)
    : MapOperator(masked_schema(*input, options)), options_(std::move(options)), occurrence_(occurrence) {
  constexpr int64_t kMostIds = INT32_MAX;
  if (options_.vocab_size < 1 || options_.vocab_size > kMostIds) {
    refuse(fmt::format("vocab_size is {}, must be between 1 and {}", options_.vocab_size, kMostIds));
  }
  if (options_.mask_token < 0 || options_.mask_token >= options_.vocab_size) {
    refuse(fmt::format("mask_token is {}, must be below vocab_size {}", options_.mask_token, options_.vocab_size));
  }
  if (!(options_.probability >= 0 && options_.probability <= 1)) {
    refuse(fmt::format("probability is {}, must be between 0 and 1", options_.probability));
  }
  if (!(options_.mask_share >= 0 && options_.random_share >= 0 &&
        options_.mask_share + options_.random_share <= 1 + 1e-9)) {
    refuse(fmt::format("mask_share {} and random_share {} must not be negative and sum to at most 1",
                       options_.mask_share, options_.random_share));
  }
  input_column_ = input->column(options_.input_ids);
  if (!options_.attention_mask.empty()) attention_column_ = input->column(options_.attention_mask);
  special_tokens_.reserve(options_.special_tokens.size());
  for (const int64_t special : options_.special_tokens) {
    if (special < 0 || special >= options_.vocab_size) {
      refuse(fmt::format("special token {} is not below vocab_size {}", special, options_.vocab_size));
    }
    special_tokens_.push_back(static_cast<int32_t>(special));
  }
  rule_ = {.mask_below = chance(options_.probability * options_.mask_share),
           .random_below = chance(options_.probability * std::min(1.0, options_.mask_share + options_.random_share)),
           .chosen_below = chance(options_.probability),
           .mask_token = static_cast<int32_t>(options_.mask_token),
           .special_tokens = special_tokens_};
}

std::string MaskTokensOperator::arguments() const {
  return fmt::format("vocab_size={}, mask_token={}, special_tokens=[{}], probability={}, shares={}/{}, seed={}{}",
                     options_.vocab_size, options_.mask_token, fmt::join(options_.special_tokens, ","),
                     options_.probability, options_.mask_share, options_.random_share, options_.seed,
                     occurrence_ == 0 ? "" : fmt::format(", occurrence={}", occurrence_));
}

Block MaskTokensOperator::apply(Block block, BufferPool& pool) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  Column ids;
  Column labels;
  if (original.has_fixed_shape()) {
    ids = Column::fixed(pool, original.dtype(), original.fixed_shape(), block.num_elements());
    labels = Column::fixed(pool, original.dtype(), original.fixed_shape(), block.num_elements());
  } else {
    std::vector<int64_t> offsets{0};
    std::vector<int64_t> dims;
    for (size_t i = 0; i < block.num_elements(); ++i) {
      offsets.push_back(offsets.back() + original.num_values(i));
      const Shape shape = original.shape(i);
      dims.insert(dims.end(), shape.begin(), shape.end());
    }
    ids = Column::varying(pool, original.dtype(), original.rank(), offsets, dims);
    labels = Column::varying(pool, original.dtype(), original.rank(), offsets, dims);
  }
  const std::vector<ElementError> errors = original.dtype() == DType::kInt32 ? mask_rows<int32_t>(block, ids, labels)
                                                                             : mask_rows<int64_t>(block, ids, labels);

  Block::Columns columns = block.columns();
  columns[static_cast<size_t>(input_column_)] = std::move(ids);
  columns.push_back(std::move(labels));
  Block masked = block.with_columns(schema(), std::move(columns));
  for (const ElementError& entry : errors) masked.add_error(entry.element, entry.error);
  return masked;
}

template <typename Id>
std::vector<ElementError> MaskTokensOperator::mask_rows(const Block& block, Column& ids, Column& labels) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  const Column* attention = attention_column_ < 0 ? nullptr : &block.column(static_cast<size_t>(attention_column_));
  const CounterRng rng(options_.seed, operator_id("mask_tokens", occurrence_), block.iteration);
  std::vector<ElementError> errors;
  std::vector<uint32_t> words;
  std::vector<uint32_t> random_positions;
  int64_t ordinal = block.first_row;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    const Shape shape = original.shape(element);
    const auto rows = static_cast<size_t>(shape.size() == 2 ? shape[0] : 1);
    const auto length = static_cast<size_t>(shape.back());
    if (attention != nullptr && attention->num_values(element) != original.num_values(element)) {
      Error error{
          .code = ErrorCode::kWrongShape,
          .message = fmt::format("mask_tokens: '{}' has shape {}, '{}' {}", options_.input_ids, to_string(shape),
                                 options_.attention_mask, to_string(attention->shape(element)))};
      block.locate(element, error);
      errors.push_back({element, std::make_shared<const Error>(std::move(error))});
      ordinal += block.rows_per_element;
      continue;
    }
    words.resize((length + 3) / 4 * 4);
    random_positions.resize(length + 16);
    for (size_t row = 0; row < rows; ++row) {
      const auto row_ordinal = static_cast<uint64_t>(ordinal + static_cast<int64_t>(row));
      const size_t offset = row * length;
      philox_words(rng, row_ordinal, words.size() / 4, words);
      Id* row_ids = ids.mutable_values<Id>(element).data() + offset;
      const size_t num_random =
          mask_row(rule_, original.values<Id>(element).data() + offset,
                   attention == nullptr ? nullptr : attention->values<int64_t>(element).data() + offset, words.data(),
                   length, row_ids, labels.mutable_values<Id>(element).data() + offset, random_positions.data());
      for (size_t i = 0; i < num_random; ++i) {
        const uint32_t p = random_positions[i];
        const uint32_t word = rng.words(row_ordinal, kRandomIdDraws + p)[0];
        row_ids[p] = static_cast<Id>(uniform_below(word, static_cast<uint32_t>(options_.vocab_size)));
      }
    }
    ordinal += block.rows_per_element;
  }
  return errors;
}

}  // namespace millrace
