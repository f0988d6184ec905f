#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/formats/elements/index.h"

namespace millrace {

/// Reading and writing folders of elements side by side, on this machine. Whoever writes has the folder's `FolderLock`;
/// whoever reads has a lock on the files of one generation, which stay as long as anybody has it, also behind the back
/// of a new description. So a reader keeps nobody from writing, and no writer takes a reader's files away.

/// The index of a folder, or null when there is none. Its files stay where they are as long as it lives. Blocks. Throws
/// as `ElementsIndex::find`.
[[nodiscard]] std::shared_ptr<const ElementsIndex> find_local_elements(const std::string& directory);
/// An index of files that were just written, in the same way. Only for who has the folder's lock.
[[nodiscard]] std::shared_ptr<const ElementsIndex> in_use(std::shared_ptr<const ElementsIndex> index);

/// A generation that no file in a folder has.
[[nodiscard]] uint64_t next_generation(const std::string& directory);

/// Removes the files of elements that the index does not name (null: all): those that others have replaced, unless
/// somebody reads them, and what killed processes left; what cannot be removed stays. Only for who has the folder's
/// lock. Throws `kIo` for a folder that cannot be read, and, before it removes anything, `kInvalidArgument` where there
/// is no index and a file whose name begins with `elements-` but is none of theirs: the folder may hold somebody's
/// data.
void remove_other_elements(const std::string& directory, const ElementsIndex* index);

}  // namespace millrace
