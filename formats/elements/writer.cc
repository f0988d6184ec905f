#include "millrace/formats/elements/writer.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

template <typename T>
std::string_view bytes_of(const T& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

ElementsWriter::ElementsWriter(std::shared_ptr<ElementsFolder> folder, SchemaPtr schema, ElementsIndex::About about,
                               uint64_t file_bytes)
    : folder_(std::move(folder)),
      schema_(std::move(schema)),
      about_(std::move(about)),
      file_bytes_(file_bytes),
      encoder_(schema_) {}

ElementsWriter::~ElementsWriter() {
  if (committed_) return;
  file_.reset();
  full_files_.clear();
  for (const ElementsIndex::File& file : files_) folder_->remove(file.name);
}

bool ElementsWriter::is_remote() const { return folder_->is_remote(); }

void ElementsWriter::append(const Block& block) {
  for (const ElementError& entry : block.errors()) {
    if (!entry.is_note()) throw ErrorException(*entry.error);
  }
  for (size_t first = 0; first < block.num_elements();) {
    const size_t count = encoder_.room_for(block, first);
    if (count == 0) {
      write_block();
      continue;
    }
    encoder_.append(block, first, count);
    first += count;
  }
}

void ElementsWriter::write_block() {
  const auto elements = static_cast<int64_t>(encoder_.num_elements());
  num_notes_ += static_cast<int64_t>(encoder_.num_notes());
  const std::string_view payload = encoder_.finish();
  if (payload.size() > UINT32_MAX) {
    throw ErrorException(ErrorCode::kRecordTooLarge, fmt::format("element {} takes {} bytes, at most {} can be written",
                                                                 num_places_, payload.size(), UINT32_MAX));
  }
  if (file_ == nullptr) {
    files_.push_back({.name = elements_file_name(about_.generation, files_.size())});
    file_ = folder_->create(files_.back().name);
  }
  const uint64_t length = payload.size();
  const uint32_t length_crc = masked_crc32c_of_length(length);
  const uint32_t crc = masked_crc32c(payload);
  std::string header(bytes_of(length));
  header += bytes_of(length_crc);
  file_->write(header);
  file_->write(payload);
  file_->write(bytes_of(crc));
  blocks_.push_back({.offset = files_.back().bytes,
                     .first_element = num_places_,
                     .payload_crc = crc,
                     .payload_bytes = static_cast<uint32_t>(length)});
  num_places_ += elements;
  num_bytes_ += kFrameBytes + length;
  files_.back().bytes += kFrameBytes + length;
  files_.back().blocks = blocks_.size();
  if (files_.back().bytes >= file_bytes_) full_files_.push_back(std::move(file_));
}

void ElementsWriter::sync_full_files() {
  for (const std::unique_ptr<OutputFile>& file : full_files_) file->commit();
  full_files_.clear();
}

std::shared_ptr<const ElementsIndex> ElementsWriter::commit() {
  if (encoder_.num_elements() > 0) write_block();
  if (file_ != nullptr) full_files_.push_back(std::move(file_));
  sync_full_files();
  auto index = std::make_shared<const ElementsIndex>(folder_->directory(), schema_, about_, std::move(files_),
                                                     std::move(blocks_), num_places_, num_notes_);
  files_ = index->files();  // removed when the next line fails
  folder_->commit(*index);
  committed_ = true;
  std::shared_ptr<const ElementsIndex> used = folder_->in_use(std::move(index));
  folder_->remove_others(used.get());
  return used;
}

}  // namespace millrace
