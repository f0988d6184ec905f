#include "ops/row_store.h"

#include <algorithm>
#include <cstring>

#include "formats/columnar/ask_for_memory.h"

namespace millrace {

bool RowStore::Arrivals::take(const char* row, size_t looked_at) {
  const size_t end = std::min(rows_.size() - next_, looked_at) + next_;
  for (size_t i = next_; i < end; ++i) {
    if (rows_[i] != row) continue;
    rows_[i] = nullptr;
    next_ = i + 1;
    return true;
  }
  return false;
}

void RowStore::Arrivals::release() noexcept {
  std::erase(rows_, nullptr);
  if (!rows_.empty()) store_->free(rows_);
  delete this;
}

void RowStore::put(Column& column, const Ref<Resource>& read_to) {
  struct Copy {
    std::string_view* row;
    Header header;
    std::byte* memory;
  };
  thread_local std::vector<Copy> copies;
  copies.clear();
  const std::span<std::string_view> rows = column.mutable_values<std::string_view>();
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
  for (size_t i = 0; i < copies.size(); ++i) {
    // The memory for the next row is on its way while this one is copied.
    if (i + 1 < copies.size()) {
      ask_for_memory</*kForWrite=*/true>(copies[i + 1].memory, sizeof(Header) + copies[i + 1].row->size());
    }
    const auto& [row, header, memory] = copies[i];
    std::memcpy(memory, &header, sizeof header);
    char* const to = reinterpret_cast<char*>(memory) + sizeof header;
    if (!row->empty()) std::memcpy(to, row->data(), row->size());
    *row = {to, row->size()};
    put.push_back(to);
  }
  column.hold(Ref<Arrivals>(new Arrivals(shared_from_this(), std::move(put))));
}

void RowStore::free(std::span<const char* const> rows) noexcept {
  // Who frees a row has just read it, or it waits here for its memory; not where others wait for the lock.
  thread_local std::vector<Header> headers;
  headers.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(&headers[i], rows[i] - sizeof(Header), sizeof(Header));
  const std::lock_guard lock(mutex_);
  for (const Header& header : headers) slab_.free(header);
}

void RowStore::Taker::begin_block(const Column& rows) {
  origins_.clear();
  last_ = 0;
  rows.holds().for_each([this](const Ref<Resource>& resource) {
    auto* const arrivals = dynamic_cast<Arrivals*>(resource.get());
    if (arrivals == nullptr || !arrivals->are_in(store_)) return;
    const auto is_it = [arrivals](const Origin& origin) { return origin.arrivals.get() == arrivals; };
    if (std::none_of(origins_.begin(), origins_.end(), is_it)) {
      origins_.push_back({Ref<Arrivals>(arrivals), origins_.size() + 1});
    }
  });
  if (!origins_.empty()) origins_.back().then = 0;
}

bool RowStore::Taker::take(std::string_view row) {
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
  for (const size_t looked_at : {size_t{1}, SIZE_MAX}) {
    for (size_t at = 0; at < origins_.size(); ++at) {
      if (is_at((then + at) % origins_.size(), looked_at)) return true;
    }
  }
  return false;
}

void RowStore::Loan::release() noexcept {
  const std::shared_ptr<RowStore> store = std::move(store_);
  store->free(rows_);
  delete this;
}

}  // namespace millrace
