#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/columnar/memory_gate.h"
#include "millrace/formats/elements/index.h"
#include "millrace/formats/storage/file_feed.h"

namespace millrace {

/// Reads blocks of a folder of elements, one at a time in any order, without ever blocking. A block is read with one
/// request, and compared byte for byte with what the description says of it: its checksum, its length, the number of
/// its elements. So a file that took another's place is found like a damaged byte.
///
/// The rules for calls, `wake` and destruction are those of ShardReader.
class ElementsReader {
 public:
  enum class Step {
    kBlock,    ///< the block is there
    kPending,  ///< not now: `wake` will be called; ask for the same block again
    kError,    ///< see `error()`; other blocks can be asked for
  };

  /// `memory`: is asked before memory for a large block is taken; null: nobody. `names`: see `decode_block`.
  ElementsReader(Storage& storage, BufferPool& pool, std::shared_ptr<const ElementsIndex> index,
                 std::shared_ptr<ShardNames> names, MemoryGate* memory, std::function<void()> wake);
  ~ElementsReader();
  ElementsReader(const ElementsReader&) = delete;
  ElementsReader& operator=(const ElementsReader&) = delete;

  Step read(size_t number, Block& out);
  /// With file and offset, and the bytes that are lost. Valid after kError.
  const Error& error() const { return error_; }

 private:
  Step fail(size_t number, Error error);
  bool start(size_t number);
  Step take(size_t number, Block& out);

  Storage& storage_;
  BufferPool& pool_;
  const std::shared_ptr<const ElementsIndex> index_;
  const std::shared_ptr<ShardNames> names_;
  MemoryGate* const memory_;
  const std::function<void()> wake_;
  std::shared_ptr<FileFeed> feed_;  // of the file `file_`; null: none is open
  size_t file_ = 0;
  bool checked_ = false;  // that it has as many bytes as it should
  Buffer buffer_;         // of the read in flight
  Error error_;
};

}  // namespace millrace
