#include "millrace/formats/columnar/origin.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "millrace/formats/error.h"

namespace millrace {

uint32_t ShardNames::add(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

std::string ShardNames::name(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return names_.at(number);
}

Origins::Origins(BufferPool& pool, std::shared_ptr<const ShardNames> names, size_t count)
    : memory_(new Memory(pool.allocate(count * sizeof(Origin)), std::move(names))),
      data_(reinterpret_cast<Origin*>(memory_->buffer->data())),
      size_(count) {}

Origins Origins::slice(size_t first, size_t count) const {
  Origins part;
  if (count == 0 || first + count > size_) return part;
  part.memory_ = memory_;
  part.data_ = data_ + first;
  part.size_ = count;
  return part;
}

void Origins::locate(size_t row, Error& error) const {
  if (row >= size_ || !data_[row].is_known() || !error.shard.empty()) return;
  error.shard = memory_->names->name(data_[row].shard());
  error.offset = static_cast<int64_t>(data_[row].offset());
  error.record = static_cast<int64_t>(data_[row].record());
}

void OriginsBuilder::copy(const Origin* from, size_t count, Origin* to) { std::copy(from, from + count, to); }

void OriginsBuilder::reserve(size_t count) {
  if (used_ + count <= capacity_) return;
  const size_t wanted = std::max({used_ + count, 2 * used_, last_used_});
  Origins larger(*pool_, names_, wanted);
  copy(data_, used_, larger.mutable_data());
  memory_ = std::move(larger);
  data_ = memory_.mutable_data();
  capacity_ = wanted;
}

// Elements that came without origins.
void OriginsBuilder::pad(size_t elements) {
  if (used_ >= elements * rows_) return;
  const size_t count = elements * rows_ - used_;
  reserve(count);
  std::fill_n(data_ + used_, count, Origin());
  used_ += count;
}

// Whether origins of this kind can stand beside those that are there.
bool OriginsBuilder::make_ready(size_t count, size_t rows, const std::shared_ptr<const ShardNames>& names,
                                size_t elements) {
  if (rows_ == 0) {
    rows_ = rows;
    names_ = names;
  } else if (rows != rows_ || names != names_) {
    return false;
  }
  pad(elements);
  reserve(count);
  return true;
}

void OriginsBuilder::truncate(size_t elements) { used_ = std::min(used_, elements * rows_); }

Origins OriginsBuilder::finish(size_t elements) {
  if (rows_ == 0) return {};
  pad(elements);
  Origins origins = memory_.slice(0, used_);
  last_used_ = used_;
  memory_ = {};
  data_ = nullptr;
  capacity_ = used_ = rows_ = 0;
  return origins;
}

Origins OriginsBuilder::split(size_t first, size_t elements) {
  const size_t rows = rows_;
  const Origins all = finish(elements);
  if (rows > 0 && first < elements) append(all.data() + first * rows, (elements - first) * rows, rows, all.names(), 0);
  return all.slice(0, first * rows);
}

}  // namespace millrace
