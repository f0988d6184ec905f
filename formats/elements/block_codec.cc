#include "millrace/formats/elements/block_codec.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/records/skipped_region.h"

namespace millrace {
namespace {

constexpr uint64_t kVersion = 1;
// What a block is cut at: as stages that gather rows do.
constexpr size_t kMostElements = 1024;
constexpr size_t kEnoughBytes = 256 << 10;
// More elements than any block has, or dimensions than any feature.
constexpr uint64_t kMostInBlock = 1 << 20;
constexpr uint64_t kMostSizes = uint64_t{1} << 32;

void put_error(const Error& error, ByteWriter& out) {
  out.put(static_cast<uint64_t>(error.code));
  for (const std::string* text : {&error.message, &error.shard, &error.stage}) out.put_text(*text);
  for (const int64_t number : {error.offset, error.record, error.lost_bytes}) out.put_signed(number);
  const SkippedRegion& region = *error.skipped;
  out.put_text(region.shard);
  out.put(region.begin);
  out.put(region.end);
  out.put(region.end_is_known ? 1 : 0);
  out.put(region.first_record);
  out.put(region.records ? 1 + *region.records : 0);
  out.put_signed(region.epoch);
  out.put(static_cast<uint64_t>(region.code));
  out.put_text(region.reason);
}

ErrorCode take_code(ByteReader& in) { return static_cast<ErrorCode>(in.take(uint64_t(ErrorCode::kOutOfRange))); }

std::shared_ptr<const Error> take_error(ByteReader& in) {
  Error error;
  error.code = take_code(in);
  for (std::string* text : {&error.message, &error.shard, &error.stage}) *text = in.take_text();
  for (int64_t* number : {&error.offset, &error.record, &error.lost_bytes}) *number = in.take_signed();
  SkippedRegion region;
  region.shard = in.take_text();
  region.begin = in.take();
  region.end = in.take();
  region.end_is_known = in.take(1) == 1;
  region.first_record = in.take();
  if (const uint64_t records = in.take(); records > 0) region.records = records - 1;
  region.epoch = in.take_signed();
  region.code = take_code(in);
  region.reason = in.take_text();
  error.skipped = std::make_shared<const SkippedRegion>(std::move(region));
  return std::make_shared<const Error>(std::move(error));
}

std::string_view raw(const void* bytes, size_t size) { return {static_cast<const char*>(bytes), size}; }

}  // namespace

BlockEncoder::BlockEncoder(SchemaPtr schema) : schema_(std::move(schema)), features_(schema_->size()) {}

size_t BlockEncoder::byte_size() const {
  size_t bytes = notes_.size() + names_.size() + origins_.size();
  for (const Feature& feature : features_)
    bytes += feature.sizes.size() + feature.lengths.size() + feature.values.size();
  return bytes;
}

size_t BlockEncoder::room_for(const Block& block, size_t first) const {
  if (num_elements_ > 0 && (block.epoch != epoch_ || block.rows_per_element != rows_per_element_)) return 0;
  if (num_origins_ > 0 && !block.origins().empty() && block.origins().names() != shard_names_) return 0;
  // Where it ends must not depend on how the elements come in blocks: with the element that makes it large enough.
  // Where all have one size, what is said of rows and damage does not count: nobody knows yet what it will take.
  const auto each = static_cast<size_t>(fixed_bytes(*schema_));
  const size_t bytes = each > 0 ? num_elements_ * each : byte_size();
  if (num_elements_ >= kMostElements || bytes >= kEnoughBytes) return 0;
  const size_t most = std::min(kMostElements - num_elements_, block.num_elements() - first);
  return std::min(most, each > 0 ? (kEnoughBytes - bytes + each - 1) / each : 1);
}

void BlockEncoder::append(const Block& block, size_t first, size_t count) {
  rows_per_element_ = block.rows_per_element;
  epoch_ = block.epoch;
  append_origins(block, first, count);
  for (const size_t end = first + count; first < end;) {
    const ElementError* note = block.next_error(first);
    const size_t good = note == nullptr ? end - first : std::min(note->element, end) - first;
    for (size_t c = 0; good > 0 && c < features_.size(); ++c) append_values(c, block.column(c), first, good);
    num_elements_ += good;
    first += good;
    if (first == end) break;
    notes_.put(num_elements_);
    put_error(*note->error, notes_);
    for (size_t c = 0; c < features_.size(); ++c) append_no_values(c);
    ++num_notes_;
    ++num_elements_;
    ++first;
  }
}

void BlockEncoder::append_values(size_t feature, const Column& column, size_t first, size_t count) {
  const FeatureSpec& spec = (*schema_)[feature];
  Feature& out = features_[feature];
  size_t num_values = 0;
  for (size_t i = first; i < first + count; ++i) {
    num_values += static_cast<size_t>(column.num_values(i));
    if (spec.is_ragged()) {
      const std::span<const int64_t> sizes = column.sizes(i);
      out.sizes.put(static_cast<uint64_t>(column.num_values(i)));
      out.sizes.put(sizes.size());
      for (const int64_t size : sizes) out.sizes.put(static_cast<uint64_t>(size));
    } else if (!spec.has_fixed_shape()) {
      for (size_t d = 0; d < spec.shape.size(); ++d) out.sizes.put(static_cast<uint64_t>(column.size(i, d)));
    }
  }
  if (spec.dtype != DType::kBytes) {
    // The values of neighbours lie side by side.
    if (num_values > 0) out.values.put_raw(raw(column.data(first), num_values * size_of(spec.dtype)));
    return;
  }
  for (size_t i = first; i < first + count; ++i) {
    for (const std::string_view value : column.values<std::string_view>(i)) {
      out.lengths.put(value.size());
      out.values.put_raw(value);
    }
  }
}

void BlockEncoder::append_no_values(size_t feature) {
  const FeatureSpec& spec = (*schema_)[feature];
  Feature& out = features_[feature];
  if (spec.is_ragged()) {
    // As ColumnBuilder::append_nothing: a ragged dimension of no rows has one split.
    out.sizes.put(0);
    out.sizes.put(spec.shape.size());
  }
  if (!spec.has_fixed_shape()) {
    for (size_t d = 0; d < spec.shape.size(); ++d) out.sizes.put(0);
    return;
  }
  const auto count = static_cast<size_t>(num_values(spec.shape));
  if (spec.dtype == DType::kBytes) {
    for (size_t i = 0; i < count; ++i) out.lengths.put(0);
  } else {
    out.values.put_raw(std::string(count * size_of(spec.dtype), '\0'));
  }
}

void BlockEncoder::append_origins(const Block& block, size_t first, size_t count) {
  const auto rows = static_cast<size_t>(block.rows_per_element);
  const Origins& origins = block.origins();
  const size_t before = num_elements_ * rows;
  if (origins.empty() || origins.size() != rows * block.num_elements()) {
    if (num_origins_ == 0) return;
    for (size_t i = 0; i < count * rows; ++i) origins_.put(0);
    num_origins_ += count * rows;
    return;
  }
  for (; num_origins_ < before; ++num_origins_) origins_.put(0);
  shard_names_ = origins.names();
  for (const Origin* origin = origins.data() + first * rows; num_origins_ < before + count * rows; ++origin) {
    ++num_origins_;
    if (!origin->is_known()) {
      origins_.put(0);
      continue;
    }
    const uint32_t shard = origin->shard();
    if (places_.size() <= shard) places_.resize(shard + 1, 0);
    if (places_[shard] == 0) {
      names_.put_text(shard_names_->name(shard));
      shards_.push_back(shard);
      places_[shard] = static_cast<uint32_t>(shards_.size());
    }
    // Mostly the next record of one of a few shards.
    origins_.put(places_[shard]);
    origins_.put_signed(static_cast<int64_t>(origin->offset() - last_origin_.offset()));
    origins_.put_signed(static_cast<int64_t>(origin->record() - last_origin_.record()));
    last_origin_ = *origin;
  }
}

std::string_view BlockEncoder::finish() {
  whole_.clear();
  whole_.put(kVersion);
  whole_.put(num_elements_);
  whole_.put(static_cast<uint64_t>(rows_per_element_));
  whole_.put_signed(epoch_);
  whole_.put(num_notes_);
  whole_.put_raw(notes_.bytes());
  whole_.put(num_origins_);
  if (num_origins_ > 0) {
    whole_.put(shards_.size());
    whole_.put_raw(names_.bytes());
    whole_.put_raw(origins_.bytes());
  }
  for (Feature& feature : features_) {
    for (ByteWriter* part : {&feature.sizes, &feature.lengths, &feature.values}) {
      whole_.put_text(part->bytes());
      part->clear();
    }
  }
  for (ByteWriter* part : {&notes_, &names_, &origins_}) part->clear();
  for (const uint32_t shard : shards_) places_[shard] = 0;
  shards_.clear();
  last_origin_ = {};
  num_origins_ = num_elements_ = num_notes_ = 0;
  return whole_.bytes();
}

namespace {

/// One feature of a block.
class ColumnDecoder {
 public:
  // `notes`: in the places of which there are no values.
  ColumnDecoder(const FeatureSpec& feature, size_t num_elements, const std::vector<ElementError>& notes, ByteReader& in)
      : feature_(feature),
        num_elements_(num_elements),
        notes_(notes),
        sizes_(in.take_text()),
        lengths_(in.take_text()),
        values_(in.take_text()) {}

  Column decode(const Ref<Resource>& holder, BufferPool& pool) {
    Column column = shape(pool);
    if (feature_.dtype == DType::kBytes) {
      for (std::string_view& value : column.mutable_values<std::string_view>()) {
        value = values_.take_raw(lengths_.take());
      }
      column.hold(holder);
    } else if (const size_t bytes = values_.left(); bytes > 0) {
      std::memcpy(column.mutable_data(0), values_.take_raw(bytes).data(), bytes);
    }
    if (sizes_.left() + lengths_.left() + values_.left() > 0) ByteReader::refuse();
    return column;
  }

 private:
  // Before memory is taken: whether so many values can be there.
  void check(uint64_t num_values) {
    const bool fits = feature_.dtype == DType::kBytes ? num_values <= lengths_.left()
                                                      : num_values * size_of(feature_.dtype) == values_.left();
    if (num_values > kMostValues || !fits) ByteReader::refuse();
  }

  Column shape(BufferPool& pool) {
    if (feature_.has_fixed_shape()) {
      check(static_cast<uint64_t>(millrace::num_values(feature_.shape)) * num_elements_);
      return Column::fixed(pool, feature_.dtype, feature_.shape, num_elements_);
    }
    return feature_.is_ragged() ? ragged(pool) : varying(pool);
  }

  // Elements are asked for in their order.
  bool is_note(size_t element) {
    while (next_note_ < notes_.size() && notes_[next_note_].element < element) ++next_note_;
    return next_note_ < notes_.size() && notes_[next_note_].element == element;
  }
  static void check_dimension(int64_t dimension, uint64_t size, bool is_note) {
    if (dimension >= 0 && size != static_cast<uint64_t>(dimension) && !(is_note && size == 0)) ByteReader::refuse();
  }

  Column varying(BufferPool& pool) {
    const size_t rank = feature_.shape.size();
    std::vector<int64_t> offsets{0};
    std::vector<int64_t> dims;
    for (size_t i = 0; i < num_elements_; ++i) {
      const bool note = is_note(i);
      uint64_t count = 1;
      for (size_t d = 0; d < rank; ++d) {
        const uint64_t size = sizes_.take(kMostSizes);
        check_dimension(feature_.shape[d], size, note);
        if (__builtin_mul_overflow(count, size, &count) || count > kMostValues) ByteReader::refuse();
        dims.push_back(static_cast<int64_t>(size));
      }
      if (static_cast<uint64_t>(offsets.back()) + count > kMostValues) ByteReader::refuse();
      offsets.push_back(offsets.back() + static_cast<int64_t>(count));
    }
    check(static_cast<uint64_t>(offsets.back()));
    return Column::varying(pool, feature_.dtype, static_cast<int>(rank), offsets,
                           rank > 1 ? dims : std::vector<int64_t>());
  }

  Column ragged(BufferPool& pool) {
    std::vector<int64_t> offsets{0};
    std::vector<int64_t> sizes;
    std::vector<int64_t> size_offsets{0};
    for (size_t i = 0; i < num_elements_; ++i) {
      offsets.push_back(offsets.back() + static_cast<int64_t>(sizes_.take(kMostSizes)));
      const uint64_t num_sizes = sizes_.take(sizes_.left());
      for (uint64_t s = 0; s < num_sizes; ++s) sizes.push_back(static_cast<int64_t>(sizes_.take(kMostSizes)));
      size_offsets.push_back(static_cast<int64_t>(sizes.size()));
      check_ragged({sizes.end() - static_cast<ptrdiff_t>(num_sizes), sizes.end()}, offsets[i + 1] - offsets[i],
                   is_note(i));
    }
    check(static_cast<uint64_t>(offsets.back()));
    return Column::ragged(pool, feature_.dtype, feature_.shape, offsets, sizes, size_offsets);
  }

  // The sizes of one element must make up its values: see Column::sizes.
  void check_ragged(std::span<const int64_t> sizes, int64_t num_values, bool is_note) const {
    uint64_t rows = 1;
    size_t at = 0;
    for (const int64_t dimension : feature_.shape) {
      if (dimension != kRagged) {
        if (at == sizes.size()) ByteReader::refuse();
        const auto size = static_cast<uint64_t>(sizes[at++]);
        check_dimension(dimension, size, is_note);
        if (__builtin_mul_overflow(rows, size, &rows)) ByteReader::refuse();
        continue;
      }
      if (rows >= sizes.size() - at || sizes[at] != 0) ByteReader::refuse();
      for (uint64_t row = 0; row < rows; ++row, ++at) {
        if (sizes[at + 1] < sizes[at]) ByteReader::refuse();
      }
      rows = static_cast<uint64_t>(sizes[at++]);
    }
    if (at != sizes.size() || rows != static_cast<uint64_t>(num_values)) ByteReader::refuse();
  }

  static constexpr uint64_t kMostValues = uint64_t{1} << 48;

  const FeatureSpec& feature_;
  const size_t num_elements_;
  const std::vector<ElementError>& notes_;
  size_t next_note_ = 0;
  ByteReader sizes_;
  ByteReader lengths_;
  ByteReader values_;
};

Origins take_origins(ByteReader& in, uint64_t rows, BufferPool& pool, const std::shared_ptr<ShardNames>& names) {
  const uint64_t num_origins = in.take(in.left());
  if (num_origins == 0) return {};
  std::vector<uint32_t> shards(in.take(in.left()));
  for (uint32_t& shard : shards) {
    const std::string_view name = in.take_text();
    if (names != nullptr) shard = names->add(std::string(name));
  }
  if (num_origins != rows) ByteReader::refuse();
  Origins origins;
  if (names != nullptr) {
    origins = Origins(pool, names, rows);
    std::fill_n(origins.mutable_data(), rows, Origin());
  }
  uint64_t offset = 0;
  uint64_t record = 0;
  for (uint64_t i = 0; i < num_origins; ++i) {
    const uint64_t shard = in.take(shards.size());
    if (shard == 0) continue;
    offset += static_cast<uint64_t>(in.take_signed());
    record += static_cast<uint64_t>(in.take_signed());
    if (names != nullptr) origins.mutable_data()[i] = Origin(shards[shard - 1], offset, record);
  }
  return origins;
}

}  // namespace

Block decode_block(std::string_view bytes, const Ref<Resource>& holder, const SchemaPtr& schema, BufferPool& pool,
                   const std::shared_ptr<ShardNames>& names) {
  ByteReader in(bytes);
  if (in.take() != kVersion) throw ErrorException(ErrorCode::kParse, "elements of another version");
  const uint64_t num_elements = in.take(kMostInBlock);
  const uint64_t rows_per_element = in.take(kMostSizes);
  const int64_t epoch = in.take_signed();
  std::vector<ElementError> notes;
  for (uint64_t left = in.take(num_elements); left > 0; --left) {
    const uint64_t element = in.take(num_elements - 1);
    if (!notes.empty() && element <= notes.back().element) ByteReader::refuse();
    notes.push_back({element, take_error(in)});
  }
  // One that has no rows has no origins either.
  Origins origins = take_origins(in, num_elements * rows_per_element, pool, names);
  Block::Columns columns;
  columns.reserve(schema->size());
  for (const FeatureSpec& feature : schema->features()) {
    columns.push_back(ColumnDecoder(feature, num_elements, notes, in).decode(holder, pool));
  }
  if (in.left() > 0) ByteReader::refuse();
  Block block(schema, std::move(columns), num_elements);
  block.rows_per_element = static_cast<int64_t>(rows_per_element);
  block.epoch = epoch;
  for (ElementError& note : notes) block.add_error(note.element, std::move(note.error));
  block.set_origins(std::move(origins));
  return block;
}

}  // namespace millrace
