#include "ops/mask_tokens.h"

#include <algorithm>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ops/counter_rng.h"
#include "ops/philox_words.h"
#include "ops/row_number.h"

namespace millrace {
namespace {

// Draws from here on give random ids; below, the choices of positions.
constexpr uint64_t kRandomIdDraws = uint64_t{1} << 32;
// And these what becomes of the tokens of words and spans; MaskChoice has those from 3 * 2^32 on.
constexpr uint64_t kFateDraws = uint64_t{2} << 32;

constexpr size_t kRowsAtOnce = 16;

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

uint64_t digest_of(const std::vector<bool>& table) {
  const std::vector<uint8_t> bytes(table.begin(), table.end());
  return XXH3_64bits(bytes.data(), bytes.size());
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
  rule_ = {.mask_below = chance(options_.probability * options_.mask_share),
           .random_below = chance(options_.probability * std::min(1.0, options_.mask_share + options_.random_share)),
           .chosen_below = chance(options_.probability),
           .mask_token = static_cast<int32_t>(options_.mask_token),
           .special_tokens = special_tokens_};
}

std::string MaskTokensOperator::arguments() const {
  std::string text = fmt::format(
      "vocab_size={}, mask_token={}, special_tokens=[{}], probability={}, shares={}/{}, seed={}{}", options_.vocab_size,
      options_.mask_token, fmt::join(options_.special_tokens, ","), options_.probability, options_.mask_share,
      options_.random_share, options_.seed, occurrence_ == 0 ? "" : fmt::format(", occurrence={}", occurrence_));
  if (!options_.word_starts.empty()) text += ", word_starts=" + options_.word_starts;
  if (!options_.starts_word.empty()) text += fmt::format(", starts_word={:016x}", digest_of(options_.starts_word));
  if (options_.spans) text += fmt::format(", spans={}/{}", options_.spans->stop, options_.spans->max_length);
  return text;
}

Block MaskTokensOperator::apply(Block block, BufferPool& pool) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  // Memory that nobody else can see is written again: fresh memory would have to come into the cache first.
  Column ids = original.is_only_owner() ? original : Column::like(pool, original.dtype(), original);
  Column labels = Column::like(pool, original.dtype(), original);
  const std::vector<ElementError> errors = original.dtype() == DType::kInt32 ? mask_rows<int32_t>(block, ids, labels)
                                                                             : mask_rows<int64_t>(block, ids, labels);

  Block::Columns columns = std::move(block.mutable_columns());
  columns[static_cast<size_t>(input_column_)] = std::move(ids);
  columns.push_back(std::move(labels));
  Block masked = block.with_columns(schema(), std::move(columns));
  for (const ElementError& entry : errors) masked.add_error(entry.element, entry.error);
  return masked;
}

template <typename Id>
struct MaskTokensOperator::Row {
  uint64_t number;
  size_t length;
  const Id* original;
  const int64_t* attention;   // or null
  const Column* starts;       // or null
  const std::byte* is_start;  // the row's values of `starts`
  Id* ids;
  Id* labels;
};

// Kept by each thread from block to block: some tens of KB, and never more than a few MiB.
struct MaskTokensOperator::Scratch {
  // Positions [begin, end).
  struct Unit {
    uint32_t begin;
    uint32_t end;
  };
  std::vector<uint32_t> words;
  // Where ids are still to be drawn, of one row after the other, as of mask_row.
  std::vector<uint8_t> drawn;
  std::vector<uint32_t> positions;
  std::vector<Draw> draws;
  std::vector<size_t> places;  // of these draws, in the element's values
  std::vector<Unit> units;
  std::vector<MaskChoice::Span> chosen;

  // Whether a row of unlikely length was among them.
  bool is_large() const {
    constexpr size_t kMost = 1 << 16;
    return std::max({words.capacity(), drawn.capacity(), positions.capacity(), draws.capacity(), units.capacity()}) >
           kMost;
  }
};

template <typename Id>
std::vector<ElementError> MaskTokensOperator::mask_rows(const Block& block, Column& ids, Column& labels) const {
  const Column& original = block.column(static_cast<size_t>(input_column_));
  const auto column_or_null = [&block](int column) {
    return column < 0 ? nullptr : &block.column(static_cast<size_t>(column));
  };
  const Column* attention = column_or_null(attention_column_);
  const Column* starts = column_or_null(word_starts_column_);
  const CounterRng rng(options_.seed, operator_id("mask_tokens", occurrence_), block.iteration);
  std::vector<ElementError> errors;
  thread_local Scratch scratch;
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
    const auto row_at = [&](size_t row) {
      const size_t offset = row * length;
      return Row<Id>{
          .number = row_number(block, element, row),
          .length = length,
          .original = original.values<Id>(element).data() + offset,
          .attention = attention == nullptr ? nullptr : attention->values<int64_t>(element).data() + offset,
          .starts = starts,
          .is_start = starts == nullptr ? nullptr : starts->data(element) + offset * size_of(starts->dtype()),
          .ids = ids.mutable_values<Id>(element).data() + offset,
          .labels = labels.mutable_values<Id>(element).data() + offset};
    };
    if (choice_) {
      for (size_t row = 0; row < rows; ++row) mask_choice(rng, row_at(row), scratch);
      continue;
    }
    for (size_t first = 0; first < rows; first += kRowsAtOnce) {
      mask_positions<Id>(rng, row_at, first, std::min(rows, first + kRowsAtOnce), scratch);
    }
  }
  if (scratch.is_large()) scratch = {};
  return errors;
}

template <typename Id>
Id MaskTokensOperator::id_of(uint32_t word) const {
  return static_cast<Id>(uniform_below(word, static_cast<uint32_t>(options_.vocab_size)));
}

template <typename Id>
Id MaskTokensOperator::random_id(const CounterRng& rng, uint64_t row, size_t position) const {
  return id_of<Id>(rng.words(row, kRandomIdDraws + position)[0]);
}

// Each position by itself, of rows [first, end) of an element. Random ids are drawn for all these rows together, which
// fills vectors, and when the last is masked: what was just stored is read back slowly.
template <typename Id, typename RowAt>
void MaskTokensOperator::mask_positions(const CounterRng& rng, const RowAt& row_at, size_t first, size_t end,
                                        Scratch& scratch) const {
  const size_t length = row_at(first).length;
  const size_t bytes = drawn_bytes(length);
  scratch.words.resize((length + 3) / 4 * 4);
  scratch.drawn.resize((end - first) * bytes);
  const auto drawn_of = [&](size_t row) { return std::span(scratch.drawn).subspan((row - first) * bytes, bytes); };
  for (size_t r = first; r < end; ++r) {
    const Row<Id> row = row_at(r);
    philox_words(rng, row.number, scratch.words.size() / 4, scratch.words);
    mask_row(rule_, row.original, row.attention, scratch.words.data(), length, row.ids, row.labels, drawn_of(r));
  }
  scratch.positions.resize(length + 4);
  scratch.draws.clear();
  scratch.places.clear();
  for (size_t r = first; r < end; ++r) {
    const Row<Id> row = row_at(r);
    const size_t count = list_drawn(drawn_of(r), scratch.positions.data());
    for (size_t i = 0; i < count; ++i) {
      scratch.draws.push_back({row.number, kRandomIdDraws + scratch.positions[i]});
      scratch.places.push_back((r - first) * length + scratch.positions[i]);
    }
  }
  scratch.words.resize(std::max(scratch.words.size(), scratch.draws.size()));
  philox_first_words(rng, scratch.draws, scratch.words);
  Id* const ids = row_at(first).ids;
  for (size_t i = 0; i < scratch.draws.size(); ++i) ids[scratch.places[i]] = id_of<Id>(scratch.words[i]);
}

template <typename Id>
void MaskTokensOperator::mask_choice(const CounterRng& rng, const Row<Id>& row, Scratch& scratch) const {
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
  for (size_t p = 0; p < row.length; ++p) {
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
          row.ids[p] = random_id<Id>(rng, row.number, p);
        }
      }
    }
  }
}

}  // namespace millrace
