#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// Objects of servers of HTTP, each at its own URL. Nobody shows who he is.
class HttpStore final : public ObjectStore {
 public:
  [[nodiscard]] std::shared_ptr<StoreCall> read(const std::string& url,
                                                const std::optional<ObjectVersion>& pin) override;
};

}  // namespace millrace
