#include "millrace/ops/tokens/mask_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/row_number.h"
#include "millrace/ops/tokens/row_masker.h"

namespace millrace {
namespace {

// Draws from here on say what becomes of the tokens of words and spans. Below are those of RowMasker; MaskChoice has
// those from 3 * 2^32 on.
constexpr uint64_t kFateDraws = uint64_t{2} << 32;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "mask_tokens: " + why);
}

bool is_token_id(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

void check_feature(const FeatureSpec& feature) {
  if (!is_token_id(feature.dtype)) {
    refuse(fmt::format("feature '{}' is {}, needs int32 or int64", feature.name, to_string(feature.dtype)));
  }
  if (feature.shape.empty() || feature.shape.size() > 2 || feature.is_ragged()) {
    refuse(fmt::format("feature '{}' has shape {}, needs [length] or [rows,length]", feature.name,
                       to_string(feature.shape)));
  }
}

void check_same_shape(const FeatureSpec& ids, const FeatureSpec& other) {
  if (other.shape == ids.shape) return;
  refuse(fmt::format("'{}' has shape {}, '{}' {}", ids.name, to_string(ids.shape), other.name, to_string(other.shape)));
}

void check_choice(const MaskTokensOptions& options) {
  if (!options.word_starts.empty() && !options.starts_word.empty()) {
    refuse("either word_starts or starts_word says where words start, not both");
  }
  if (!options.starts_word.empty() && static_cast<int64_t>(options.starts_word.size()) != options.vocab_size) {
    refuse(
        fmt::format("starts_word has {} entries, the vocabulary {}", options.starts_word.size(), options.vocab_size));
  }
  if (!options.spans) return;
  constexpr int64_t kLongest = 1 << 16;
  if (!(options.spans->stop > 0 && options.spans->stop <= 1)) {
    refuse(fmt::format("spans.stop is {}, must be above 0 and at most 1", options.spans->stop));
  }
  if (options.spans->max_length < 1 || options.spans->max_length > kLongest) {
    refuse(fmt::format("spans.max_length is {}, must be from 1 to {}", options.spans->max_length, kLongest));
  }
  if (options.probability > 0.5) {
    refuse(fmt::format("probability is {}, must be at most 0.5 with spans: they need room between them",
                       options.probability));
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
    check_same_shape(ids, attention);
  }
  if (!options.word_starts.empty()) {
    const FeatureSpec& starts = input[static_cast<size_t>(input.column(options.word_starts))];
    check_feature(starts);
    check_same_shape(ids, starts);
  }
  features.push_back({options.labels, ids.dtype, ids.shape});
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

MaskRule mask_rule(const MaskTokensOptions& options, std::span<const int32_t> special_tokens) {
  return {.mask_below = chance(options.probability * options.mask_share),
          .random_below = chance(options.probability * std::min(1.0, options.mask_share + options.random_share)),
          .chosen_below = chance(options.probability),
          .mask_token = static_cast<int32_t>(options.mask_token),
          .vocab_size = static_cast<uint32_t>(options.vocab_size),
          .special_tokens = special_tokens};
}

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
  if (!options_.word_starts.empty()) word_starts_column_ = input->column(options_.word_starts);
  check_choice(options_);
  if (options_.spans || !options_.word_starts.empty() || !options_.starts_word.empty()) {
    choice_.emplace(options_.probability, options_.spans);
  }
  rule_ = mask_rule(options_, special_tokens_);
}

Block MaskTokensOperator::apply(Block block, BufferPool& pool) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  // Memory that nobody else can see is written again: fresh memory would have to come into the cache first.
  Column ids = original.is_only_owner() ? original : Column::like(pool, original.dtype(), original);
  Column labels = Column::like(pool, original.dtype(), original);
  const std::vector<ElementError> errors = original.dtype() == DType::kInt32
                                               ? mask_rows<int32_t>(block, ids, labels, pool)
                                               : mask_rows<int64_t>(block, ids, labels, pool);

  Block::Columns columns = std::move(block.mutable_columns());
  columns[static_cast<size_t>(input_column_)] = std::move(ids);
  columns.push_back(std::move(labels));
  Block masked = block.with_columns(schema(), std::move(columns));
  for (const ElementError& entry : errors) masked.add_error(entry.element, entry.error);
  return masked;
}

template <typename Id>
struct MaskTokensOperator::Row : RowToMask<Id> {
  const Column* starts;       // or null
  const std::byte* is_start;  // the row's values of `starts`
};

// For the rows of a block.
template <typename Id>
struct MaskTokensOperator::Scratch {
  // Positions [begin, end).
  struct Unit {
    uint32_t begin;
    uint32_t end;
  };
  explicit Scratch(BufferPool& pool)
      : rows(pool), units(CountedAllocator<Unit>(pool)), chosen(CountedAllocator<MaskChoice::Span>(pool)) {}

  typename RowMasker<Id>::Memory rows;
  CountedVector<Unit> units;
  CountedVector<MaskChoice::Span> chosen;
};

template <typename Id>
std::vector<ElementError> MaskTokensOperator::mask_rows(const Block& block, Column& ids, Column& labels,
                                                        BufferPool& pool) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  const auto column_or_null = [&block](int column) {
    return column < 0 ? nullptr : &block.column(static_cast<size_t>(column));
  };
  const Column* attention = column_or_null(attention_column_);
  const Column* starts = column_or_null(word_starts_column_);
  const CounterRng rng(options_.seed, operator_id("mask_tokens", occurrence_), block.iteration);
  std::vector<ElementError> errors;
  Scratch<Id> scratch(pool);
  RowMasker<Id> masker(rule_, rng, scratch.rows);
  for (size_t element = 0; element < block.num_elements(); ++element) {
    const Shape shape = original.shape(element);
    const auto rows = static_cast<size_t>(shape.size() == 2 ? shape[0] : 1);
    const auto length = static_cast<size_t>(shape.back());
    const auto differs = [&](const Column* other) {
      return other != nullptr && other->num_values(element) != original.num_values(element);
    };
    if (differs(attention) || differs(starts)) {
      const Column& other = differs(attention) ? *attention : *starts;
      Error error{
          .code = ErrorCode::kWrongShape,
          .message = fmt::format("mask_tokens: '{}' has shape {}, '{}' {}", options_.input_ids, to_string(shape),
                                 differs(attention) ? options_.attention_mask : options_.word_starts,
                                 to_string(other.shape(element)))};
      block.locate(element, error);
      errors.push_back({element, std::make_shared<const Error>(std::move(error))});
      continue;
    }
    for (size_t r = 0; r < rows; ++r) {
      const size_t offset = r * length;
      const Row<Id> row{
          {.number = row_number(block, element, r),
           .original = original.values<Id>(element).subspan(offset, length),
           .attention = attention == nullptr ? nullptr : attention->values<int64_t>(element).data() + offset,
           .ids = ids.mutable_values<Id>(element).data() + offset,
           .labels = labels.mutable_values<Id>(element).data() + offset},
          starts,
          starts == nullptr ? nullptr : starts->data(element) + offset * size_of(starts->dtype())};
      if (choice_) {
        mask_choice(rng, row, scratch);
      } else {
        masker.mask(row);
      }
    }
  }
  masker.finish();
  return errors;
}

template <typename Id>
void MaskTokensOperator::mask_choice(const CounterRng& rng, const Row<Id>& row, Scratch<Id>& scratch) const {
  const bool all_start = row.starts == nullptr && options_.starts_word.empty();
  const auto starts_word = [&](size_t p) {
    if (all_start) return true;
    if (row.starts == nullptr) {
      const auto id = static_cast<uint64_t>(int64_t{row.original[p]});
      return id >= options_.starts_word.size() || options_.starts_word[id];
    }
    return row.starts->dtype() == DType::kInt32 ? reinterpret_cast<const int32_t*>(row.is_start)[p] != 0
                                                : reinterpret_cast<const int64_t*>(row.is_start)[p] != 0;
  };
  scratch.units.clear();
  bool goes_on = false;
  for (size_t p = 0; p < row.original.size(); ++p) {
    const Id id = row.original[p];
    row.ids[p] = id;
    row.labels[p] = -100;
    bool may = row.attention == nullptr || row.attention[p] != 0;
    for (const int32_t special : special_tokens_) may = may && id != special;
    if (may && (!goes_on || starts_word(p))) {
      scratch.units.push_back({static_cast<uint32_t>(p), static_cast<uint32_t>(p) + 1});
    } else if (may) {
      ++scratch.units.back().end;
    }
    goes_on = may;
  }
  choice_->choose(rng, row.number, scratch.units.size(), scratch.chosen);
  const uint64_t mask_below = chance(options_.mask_share);
  const uint64_t random_below = chance(std::min(1.0, options_.mask_share + options_.random_share));
  for (const MaskChoice::Span& span : scratch.chosen) {
    const size_t first = scratch.units[span.first].begin;
    for (size_t unit = span.first; unit < span.first + span.count; ++unit) {
      for (size_t p = scratch.units[unit].begin; p < scratch.units[unit].end; ++p) {
        const size_t fate_of = options_.spans ? first : p;
        const uint64_t fate = rng.words(row.number, kFateDraws + fate_of / 4)[fate_of % 4];
        row.labels[p] = row.original[p];
        if (fate < mask_below) {
          row.ids[p] = static_cast<Id>(options_.mask_token);
        } else if (fate < random_below) {
          row.ids[p] = random_id<Id>(rule_, rng.words(row.number, kRandomIdDraws + p)[0]);
        }
      }
    }
  }
}

}  // namespace millrace
