#include "millrace/formats/elements/index.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/elements/byte_stream.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic = "millrace elements\n";
constexpr uint64_t kVersion = 1;
constexpr uint64_t kVersionWithNestedFiles = 2;
constexpr std::string_view kPrefix = "elements-";
constexpr std::string_view kSuffix = ".tfrecord";
constexpr uint64_t kMost = uint64_t{1} << 62;
constexpr uint64_t kMostDimensions = 32;  // that a Column keeps apart

uint64_t digest_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void put_schema(const Schema& schema, ByteWriter& out) {
  out.put(schema.size());
  for (const FeatureSpec& feature : schema.features()) {
    out.put_text(feature.name);
    out.put(static_cast<uint64_t>(feature.dtype));
    out.put(feature.shape.size());
    for (const int64_t size : feature.shape) out.put_signed(size);
  }
}

SchemaPtr take_schema(ByteReader& in) {
  std::vector<FeatureSpec> features(in.take(in.left()));
  for (FeatureSpec& feature : features) {
    feature.name = in.take_text();
    feature.dtype = static_cast<DType>(in.take(uint64_t(kLastDType)));
    feature.shape.resize(in.take(kMostDimensions));
    for (int64_t& size : feature.shape) {
      size = in.take_signed();
      if (size < kRagged) ByteReader::refuse();
    }
    // What is ragged is so row by row.
    if (!feature.shape.empty() && feature.shape[0] == kRagged) ByteReader::refuse();
  }
  try {
    return std::make_shared<const Schema>(std::move(features));
  } catch (const ErrorException&) {
    ByteReader::refuse();
  }
}

std::shared_ptr<const ElementsIndex> take_index(std::string directory, ByteReader& in) {
  const uint64_t version = in.take();
  if (version != kVersion && version != kVersionWithNestedFiles) {
    throw ErrorException(ErrorCode::kParse, fmt::format("the description has version {}, this Millrace reads {} and {}",
                                                        version, kVersion, kVersionWithNestedFiles));
  }
  ElementsIndex::About about;
  about.written_by = in.take_text();
  about.digest = in.take_fixed<uint64_t>();
  about.path = in.take_fixed<uint64_t>();
  about.generation = in.take();
  if (version == kVersionWithNestedFiles) {
    about.nested_files.resize(in.take(in.left()));
    if (about.nested_files.empty()) ByteReader::refuse();
    for (std::string& path : about.nested_files) path = in.take_text();
    about.nested_digest = in.take_fixed<uint64_t>();
  }
  SchemaPtr schema = take_schema(in);
  const auto num_notes = static_cast<int64_t>(in.take(kMost));
  std::vector<ElementsIndex::File> files(in.take(in.left()));
  std::vector<ElementsIndex::Block> blocks;
  uint64_t places = 0;
  for (ElementsIndex::File& file : files) {
    file.name = in.take_text();
    if (!is_elements_file_name(file.name)) ByteReader::refuse();
    const uint64_t num_blocks = in.take(in.left());
    for (uint64_t i = 0; i < num_blocks; ++i) {
      const uint64_t elements = in.take(UINT32_MAX);
      const uint64_t payload = in.take(UINT32_MAX);
      blocks.push_back({.offset = file.bytes,
                        .first_element = static_cast<int64_t>(places),
                        .payload_crc = in.take_fixed<uint32_t>(),
                        .payload_bytes = static_cast<uint32_t>(payload)});
      places += elements;
      file.bytes += kFrameBytes + payload;
    }
    file.blocks = blocks.size();
  }
  if (in.left() > 0 || places > kMost || num_notes > static_cast<int64_t>(places)) ByteReader::refuse();
  return std::make_shared<const ElementsIndex>(std::move(directory), std::move(schema), std::move(about),
                                               std::move(files), std::move(blocks), static_cast<int64_t>(places),
                                               num_notes);
}

// Removes a number from the front; nothing: there is none, or it is too large to be counted on from.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kMost) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string elements_file_name(uint64_t generation, size_t number) {
  return fmt::format("{}{}-{:05}{}", kPrefix, generation, number, kSuffix);
}

bool is_elements_file_name(std::string_view name) {
  if (!is_like_elements_file_name(name)) return false;
  std::string_view rest = name.substr(kPrefix.size());
  const std::optional<uint64_t> generation = take_number(rest);
  if (!generation || !rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  const std::optional<uint64_t> number = take_number(rest);
  // What nobody would write so is somebody's data.
  return number && elements_file_name(*generation, *number) == name;
}

bool is_like_elements_file_name(std::string_view name) { return name.starts_with(kPrefix); }

ElementsIndex::ElementsIndex(std::string directory, SchemaPtr schema, About about, std::vector<File> files,
                             std::vector<Block> blocks, int64_t num_places, int64_t num_notes)
    : directory_(std::move(directory)),
      schema_(std::move(schema)),
      about_(std::move(about)),
      files_(std::move(files)),
      blocks_(std::move(blocks)),
      num_places_(num_places),
      num_notes_(num_notes) {}

std::string ElementsIndex::serialize() const {
  ByteWriter out;
  out.put_raw(kMagic);
  out.put(about_.nested_files.empty() ? kVersion : kVersionWithNestedFiles);
  out.put_text(about_.written_by);
  out.put_fixed(about_.digest);
  out.put_fixed(about_.path);
  out.put(about_.generation);
  if (!about_.nested_files.empty()) {
    out.put(about_.nested_files.size());
    for (const std::string& path : about_.nested_files) out.put_text(path);
    out.put_fixed(about_.nested_digest);
  }
  put_schema(*schema_, out);
  out.put(static_cast<uint64_t>(num_notes_));
  out.put(files_.size());
  size_t block = 0;
  for (const File& file : files_) {
    out.put_text(file.name);
    out.put(file.blocks - block);
    for (; block < file.blocks; ++block) {
      out.put(static_cast<uint64_t>(block_places(block)));
      out.put(blocks_[block].payload_bytes);
      out.put_fixed(blocks_[block].payload_crc);
    }
  }
  out.put_fixed(digest_of(out.bytes()));
  return out.bytes();
}

std::shared_ptr<const ElementsIndex> ElementsIndex::parse(std::string directory, std::string_view bytes) {
  const auto damaged = [] { throw ErrorException(ErrorCode::kParse, "it is damaged"); };
  if (kMagic.starts_with(bytes)) damaged();  // empty, or cut
  if (!bytes.starts_with(kMagic)) throw ErrorException(ErrorCode::kInvalidArgument, "it is no description of elements");
  if (bytes.size() < kMagic.size() + sizeof(uint64_t)) damaged();
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof(uint64_t));
  if (load_frame_field<uint64_t>(content.data() + content.size()) != digest_of(content)) damaged();
  ByteReader in(content.substr(kMagic.size()));
  return take_index(std::move(directory), in);
}

std::shared_ptr<const ElementsIndex> ElementsIndex::find(Storage& storage, const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kFileName);
  try {
    std::optional<BlockingFile> file = BlockingFile::find(storage, path);
    if (!file) return nullptr;
    // Of tens of millions of blocks; no memory is taken for what is no description.
    constexpr uint64_t kMostBytes = uint64_t{1} << 30;
    std::string bytes(std::min(file->size(), uint64_t{kMagic.size()}), '\0');
    file->read(0, std::as_writable_bytes(std::span(bytes)));
    if (bytes != kMagic) return parse(directory, bytes);
    if (file->size() > kMostBytes) {
      throw ErrorException(ErrorCode::kParse, fmt::format("{} bytes are too many for a description", file->size()));
    }
    bytes.resize(file->size());
    file->read(0, std::as_writable_bytes(std::span(bytes)));
    return parse(directory, bytes);
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    if (error.shard.empty()) error.shard = path;
    throw ErrorException(std::move(error));
  }
}

std::string ElementsIndex::path(size_t file) const { return fmt::format("{}/{}", directory_, files_[file].name); }

size_t ElementsIndex::file_of(size_t block) const {
  return static_cast<size_t>(
      std::partition_point(files_.begin(), files_.end(), [&](const File& file) { return file.blocks <= block; }) -
      files_.begin());
}

size_t ElementsIndex::block_with(int64_t place) const {
  if (place >= num_places_) return blocks_.size();
  return static_cast<size_t>(std::partition_point(blocks_.begin(), blocks_.end(),
                                                  [&](const Block& block) { return block.first_element <= place; }) -
                             blocks_.begin()) -
         1;
}

uint64_t ElementsIndex::num_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.bytes;
  return bytes;
}

uint64_t ElementsIndex::content_digest() const {
  ByteWriter out;
  put_schema(*schema_, out);
  out.put(static_cast<uint64_t>(num_notes_));
  for (size_t block = 0; block < blocks_.size(); ++block) {
    out.put(static_cast<uint64_t>(block_places(block)));
    out.put(blocks_[block].payload_bytes);
    out.put_fixed(blocks_[block].payload_crc);
  }
  return digest_of(out.bytes());
}

}  // namespace millrace
