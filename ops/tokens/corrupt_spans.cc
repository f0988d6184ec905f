#include "millrace/ops/tokens/corrupt_spans.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/random/philox_words.h"
#include "millrace/formats/random/sample_without_replacement.h"
#include "millrace/ops/row_number.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "corrupt_spans: " + why);
}

constexpr int64_t kMostIds = INT32_MAX;

// Everything but the features.
CorruptSpansOptions checked(CorruptSpansOptions options) {
  if (options.vocab_size < 1 || options.vocab_size > kMostIds) {
    refuse(fmt::format("vocab_size is {}, must be from 1 to {}", options.vocab_size, kMostIds));
  }
  if (!(options.noise_density > 0 && options.noise_density < 1)) {
    refuse(fmt::format("noise_density is {}, must be above 0 and below 1", options.noise_density));
  }
  if (!(options.mean_span_length >= 1 && std::isfinite(options.mean_span_length))) {
    refuse(fmt::format("mean_span_length is {}, must be at least 1", options.mean_span_length));
  }
  const int64_t first = options.first_sentinel.value_or(options.vocab_size - 1);
  if (first < 0 || first >= options.vocab_size) {
    refuse(fmt::format("first_sentinel is {}, must be below vocab_size {}", first, options.vocab_size));
  }
  if (options.num_sentinels < 1 || options.num_sentinels > first + 1) {
    refuse(fmt::format("num_sentinels is {}, must be from 1 to {}: they count down from {} to 0 at most",
                       options.num_sentinels, first + 1, first));
  }
  if (options.end_token) {
    const int64_t end = *options.end_token;
    if (end < 0 || end >= options.vocab_size) {
      refuse(fmt::format("end_token is {}, must be below vocab_size {}", end, options.vocab_size));
    }
    if (end <= first && end > first - options.num_sentinels) refuse(fmt::format("end_token {} is a sentinel", end));
  }
  return options;
}

// Of inputs and of targets, with the end token.
std::pair<int64_t, int64_t> lengths_of(const SpanNoise& noise, int64_t length, bool has_end) {
  const SpanNoise::Counts counts = noise.counts(length);
  const int64_t end = has_end ? 1 : 0;
  // Of a row that stays whole the targets are its sentinel alone.
  const int64_t targets = length == 1 ? 1 : counts.tokens + counts.spans;
  return {length - counts.tokens + counts.spans + end, targets + end};
}

SchemaPtr corrupted_schema(const Schema& input, const CorruptSpansOptions& options) {
  std::vector<FeatureSpec> features = input.features();
  if (input.find(options.labels) >= 0) refuse(fmt::format("there is a feature '{}' already", options.labels));
  FeatureSpec& ids = features[static_cast<size_t>(input.column(options.input_ids))];
  if (ids.dtype != DType::kInt32 && ids.dtype != DType::kInt64) {
    refuse(fmt::format("feature '{}' is {}, needs int32 or int64", ids.name, to_string(ids.dtype)));
  }
  if (ids.shape.empty() || ids.shape.size() > 2 || ids.is_ragged()) {
    refuse(fmt::format("feature '{}' has shape {}, needs [length] or [rows,length]", ids.name, to_string(ids.shape)));
  }
  FeatureSpec labels{options.labels, ids.dtype, ids.shape};
  if (ids.shape.back() != kVaries) {
    const SpanNoise noise(options.noise_density, options.mean_span_length);
    std::tie(ids.shape.back(), labels.shape.back()) =
        lengths_of(noise, ids.shape.back(), options.end_token.has_value());
  }
  features.push_back(std::move(labels));
  return std::make_shared<const Schema>(std::move(features));
}

// Cuts `count` tokens into `spans` spans: the length of each goes to every second place from `to` on.
void cut(std::span<const uint32_t> words, int64_t count, int64_t spans, int64_t* to) {
  int64_t begin = 0;
  sample_without_replacement(words, static_cast<size_t>(count - 1), static_cast<size_t>(spans - 1), [&](size_t place) {
    const int64_t end = static_cast<int64_t>(place) + 1;
    *to = end - begin;
    to += 2;
    begin = end;
  });
  *to = count - begin;
}

}  // namespace

SpanNoise::Counts SpanNoise::counts(int64_t length) const {
  if (length < 2) return {};
  // The rounding mode is to nearest, halves to even.
  const auto rounded = [](float value) { return static_cast<int64_t>(std::nearbyint(value)); };
  const int64_t tokens = std::clamp<int64_t>(rounded(static_cast<float>(length) * density_), 1, length - 1);
  const int64_t spans = rounded(static_cast<float>(tokens) / mean_span_length_);
  return {tokens, std::clamp<int64_t>(spans, 1, std::min(tokens, length - tokens))};
}

void SpanNoise::draw(const CounterRng& rng, uint64_t row, int64_t length, CountedVector<int64_t>& span_lengths) const {
  span_lengths.clear();
  const Counts counts = this->counts(length);
  if (counts.spans == 0) return;
  span_lengths.resize(2 * static_cast<size_t>(counts.spans));
  const auto num_words = static_cast<size_t>(length - 2);
  CountedVector<uint32_t> words((num_words + 3) / 4 * 4, 0, span_lengths.get_allocator());
  philox_words(rng, row, words.size() / 4, words);
  const std::span<const uint32_t> all(words);
  cut(all, counts.tokens, counts.spans, span_lengths.data() + 1);
  cut(all.subspan(static_cast<size_t>(counts.tokens - 1)), length - counts.tokens, counts.spans, span_lengths.data());
}

CorruptSpansOperator::CorruptSpansOperator(const SchemaPtr& input, CorruptSpansOptions options, uint64_t occurrence)
    : MapOperator(corrupted_schema(*input, checked(options))),
      options_(std::move(options)),
      occurrence_(occurrence),
      noise_(options_.noise_density, options_.mean_span_length),
      first_sentinel_(options_.first_sentinel.value_or(options_.vocab_size - 1)),
      column_(static_cast<size_t>(input->column(options_.input_ids))) {
  const int64_t length = (*input)[column_].shape.back();
  if (length != kVaries) check_spans(length, ErrorCode::kInvalidArgument);
}

void CorruptSpansOperator::check_spans(int64_t length, ErrorCode code) const {
  const int64_t spans = noise_.counts(length).spans;
  if (spans <= options_.num_sentinels) return;
  throw ErrorException(
      code, fmt::format("corrupt_spans: rows of {} tokens in '{}' have {} spans, there are {} sentinels", length,
                        options_.input_ids, spans, options_.num_sentinels));
}

template <typename Id>
void CorruptSpansOperator::check_ids(std::span<const Id> ids) const {
  const auto found = std::find_if(ids.begin(), ids.end(), [this](Id id) {
    return id <= first_sentinel_ && id > first_sentinel_ - options_.num_sentinels;
  });
  if (found == ids.end()) return;
  throw ErrorException(ErrorCode::kOutOfRange, fmt::format("corrupt_spans: '{}' has the sentinel {} among its ids",
                                                           options_.input_ids, *found));
}

template <typename Id>
Block CorruptSpansOperator::corrupt(const Block& block, BufferPool& pool) const {
  const Column& original = block.column(column_);
  ColumnBuilder inputs(pool, (*schema())[column_]);
  ColumnBuilder labels(pool, schema()->features().back());
  const CounterRng rng(options_.seed, operator_id("corrupt_spans", occurrence_), block.iteration);
  std::vector<ElementError> errors;
  CountedVector<int64_t> span_lengths{CountedAllocator<int64_t>(pool)};
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) {
      inputs.append_nothing();
      labels.append_nothing();
      continue;
    }
    const Shape shape = original.shape(element);
    const int64_t length = shape.back();
    const std::span<const Id> ids = original.values<Id>(element);
    try {
      check_spans(length, ErrorCode::kOutOfRange);
      check_ids(ids);
    } catch (const ErrorException& failed) {
      inputs.append_nothing();
      labels.append_nothing();
      Error error = failed.error();
      block.locate(element, error);
      errors.push_back({element, std::make_shared<const Error>(std::move(error))});
      continue;
    }
    Shape to_shape = shape;
    Shape labels_shape = shape;
    std::tie(to_shape.back(), labels_shape.back()) = lengths_of(noise_, length, options_.end_token.has_value());
    Id* to = inputs.append_space<Id>(to_shape).data();
    Id* label = labels.append_space<Id>(labels_shape).data();
    const auto rows = static_cast<size_t>(shape.size() == 2 ? shape[0] : 1);
    const Id* from = ids.data();
    for (size_t row = 0; row < rows; ++row) {
      noise_.draw(rng, row_number(block, element, row), length, span_lengths);
      auto sentinel = static_cast<Id>(first_sentinel_);
      if (length == 1) {
        *to++ = *from++;
        *label++ = sentinel;
      }
      for (size_t span = 0; span < span_lengths.size(); span += 2, --sentinel) {
        to = std::copy_n(from, span_lengths[span], to);
        from += span_lengths[span];
        *to++ = sentinel;
        *label++ = sentinel;
        label = std::copy_n(from, span_lengths[span + 1], label);
        from += span_lengths[span + 1];
      }
      if (!options_.end_token) continue;
      *to++ = static_cast<Id>(*options_.end_token);
      *label++ = static_cast<Id>(*options_.end_token);
    }
  }
  Block::Columns columns = block.columns();
  columns[column_] = inputs.finish();
  columns.push_back(labels.finish());
  Block corrupted = block.with_columns(schema(), std::move(columns));
  for (ElementError& entry : errors) corrupted.add_error(entry.element, std::move(entry.error));
  return corrupted;
}

Block CorruptSpansOperator::apply(Block block, BufferPool& pool) const {
  return block.column(column_).dtype() == DType::kInt32 ? corrupt<int32_t>(block, pool) : corrupt<int64_t>(block, pool);
}

}  // namespace millrace
