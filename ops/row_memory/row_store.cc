#include "millrace/ops/row_memory/row_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "millrace/formats/columnar/prefetch_lines.h"
#include "millrace/ops/row_memory/streaming_copy.h"

namespace millrace {

bool RowStore::StoredRows::take(const char* row, size_t looked_at) {
  const size_t end = std::min(rows_.size() - next_, looked_at) + next_;
  for (size_t i = next_; i < end; ++i) {
    if (rows_[i] != row) continue;
    rows_[i] = nullptr;
    next_ = i + 1;
    return true;
  }
  return false;
}

void RowStore::StoredRows::release() noexcept {
  std::erase(rows_, nullptr);
  if (!rows_.empty()) store_->give_back(rows_);
  delete this;
}

void RowStore::put(Column& column, const Ref<Resource>& read_to) {
  struct Copy {
    std::string_view* row;
    Header header;
    std::byte* memory;
  };
  std::vector<Copy> copies;
  const std::span<std::string_view> rows = column.mutable_values<std::string_view>();
  copies.reserve(rows.size());
  for (std::string_view& row : rows) {
    if (row.size() <= kLongest) copies.push_back({&row, {}, nullptr});
  }
  if (copies.size() < rows.size()) column.hold(read_to);
  if (copies.empty()) return;
  std::vector<const char*> put;
  put.reserve(copies.size());
  {
    const std::lock_guard lock(mutex_);
    for (Copy& copy : copies) {
      copy.header = slab_.allocate(sizeof(Header) + copy.row->size());
      copy.memory = slab_.data(copy.header);
    }
  }
  const auto is_streamed = [](const Copy& copy) {
    return kStreamsRows && sizeof(Header) + copy.row->size() >= RowSlab::kWholeLines;
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    // The memory for the next row is on its way while this one is copied.
    if (i + 1 < copies.size() && !is_streamed(copies[i + 1])) {
      prefetch_lines</*kForWrite=*/true>(copies[i + 1].memory, sizeof(Header) + copies[i + 1].row->size());
    }
    const auto& [row, header, memory] = copies[i];
    char* const to = reinterpret_cast<char*>(memory) + sizeof header;
    if (is_streamed(copies[i])) {
      stream_row(memory, std::bit_cast<uint64_t>(header), *row);
    } else {
      std::memcpy(memory, &header, sizeof header);
      if (!row->empty()) std::memcpy(to, row->data(), row->size());
    }
    *row = {to, row->size()};
    put.push_back(to);
  }
  fence_streamed_rows();
  column.hold(Ref<StoredRows>(new StoredRows(shared_from_this(), std::move(put))));
}

void RowStore::give_back(std::span<const char* const> rows) noexcept {
  // Who frees a row has just read it, or it waits here for its memory; not where others wait for the lock.
  std::array<Header, 128> headers;
  while (!rows.empty()) {
    const std::span<const char* const> some = rows.first(std::min(rows.size(), headers.size()));
    for (const char* row : some) __builtin_prefetch(row - sizeof(Header));
    for (size_t i = 0; i < some.size(); ++i) std::memcpy(&headers[i], some[i] - sizeof(Header), sizeof(Header));
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < some.size(); ++i) slab_.free(headers[i]);
    rows = rows.subspan(some.size());
  }
}

void RowStore::Claimer::begin_block(const Column& rows) {
  origins_.clear();
  last_ = 0;
  searches_ = 0;
  ++block_;
  rows.holds().for_each([this](const Ref<Resource>& resource) {
    auto* const arrivals = dynamic_cast<StoredRows*>(resource.get());
    if (arrivals == nullptr || !arrivals->are_in(store_) || !arrivals->begin(block_)) return;
    origins_.push_back({Ref<StoredRows>(arrivals), origins_.size() + 1});
  });
  if (!origins_.empty()) origins_.back().then = 0;
}

bool RowStore::Claimer::take(std::string_view row) {
  if (origins_.empty()) return false;
  size_t& then = origins_[last_].then;
  const auto is_at = [&](size_t at, size_t looked_at) {
    if (!origins_[at].arrivals->take(row.data(), looked_at)) return false;
    last_ = then = at;
    return true;
  };
  // Shards that take turns do so in the same order again and again; some rows before this one may have been dropped.
  constexpr size_t kSome = 16;
  if (is_at(then, kSome)) return true;
  const auto is_anywhere = [&](size_t looked_at) {
    for (size_t at = 0; at < origins_.size(); ++at) {
      if (is_at((then + at) % origins_.size(), looked_at)) return true;
    }
    return false;
  };
  if (is_anywhere(1)) return true;
  // Each search of all passes rows that are gone, but one for a row that is in no store, such as those of another input
  // of a mix: then what is not found soon is copied, which costs less.
  constexpr int kMostFruitlessSearches = 2;
  if (searches_ == kMostFruitlessSearches) return false;
  if (is_anywhere(SIZE_MAX)) return true;
  ++searches_;
  return false;
}

void RowStore::Lease::release() noexcept {
  const std::shared_ptr<RowStore> store = std::move(store_);
  store->give_back(rows_);
  delete this;
}

}  // namespace millrace
