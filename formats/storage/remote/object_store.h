#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/remote/object_version.h"
#include "millrace/formats/storage/remote/output_options.h"
#include "millrace/formats/storage/remote/retry.h"
#include "millrace/formats/storage/remote/store_upload.h"

namespace millrace {

/// What an answer means that is not what was asked for.
struct StoreOutcome {
  enum class Kind {
    kFinal,     ///< asking again would bring the same
    kNotFound,  ///< there is no such object
    kChanged,   ///< the object is of another version than the pin
    kBusy,      ///< asking again later may help
    kAgain,     ///< the next attempt asks something else: with other credentials, in another region. Not without end
    kRedirect,  ///< a redirect, which whoever asks may follow, without showing who he is
  };
  Kind kind = Kind::kFinal;
  /// Status, the store's code and message, the number of the request: of what errors say. Never a secret.
  std::string text = {};
};

/// One request to a store with all its attempts: how they are asked, and what their answers mean. Called for one
/// attempt after the other, on any thread.
class StoreCall {
 public:
  virtual ~StoreCall() = default;

  using Ready = std::function<void(PreparedRequest)>;
  /// Completes the request of the next attempt: URL, conditions, and what shows who asks, dated now. A URL that is
  /// there already, of a redirect, stays. `ready` is called once, from any thread, at once or when what has to be
  /// waited for is there.
  virtual void prepare(HttpRequest request, Ready ready) = 0;
  /// Of an answer that is not what was asked for.
  virtual StoreOutcome judge(const HttpResponse& response) = 0;
  /// Whether an answer to `list` is a page. Default: its status is 200
  [[nodiscard]] virtual bool is_page(const HttpResponse& response) const { return response.head.status == 200; }
  /// What errors add about who was asked and as whom: `; asked of https://…, region eu-west-1, credentials: …`.
  /// Never a secret.
  [[nodiscard]] virtual std::string asked() const { return {}; }
  /// A text of an answer as errors show it: servers repeat what they were sent, and secrets of that are left out.
  /// Default: as it is, nothing that is sent is secret
  [[nodiscard]] virtual std::string shown(std::string text) const { return text; }
  /// Which content of an object of `size` bytes an answer is of. Default: what its tag and date say
  [[nodiscard]] virtual ObjectVersion version(const HttpHead& head, uint64_t size) const {
    return version_of(head, size);
  }
};

/// A kind of store: how requests to it are asked. Asks nothing itself, except what its requests need. Any thread.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  /// Reads of the object at a URL, of the version `pin` alone where there is one. Whoever asks adds the range. Throws
  /// `kInvalidArgument` where the URL names no object.
  [[nodiscard]] virtual std::shared_ptr<StoreCall> read(const std::string& url,
                                                        const std::optional<ObjectVersion>& pin) = 0;
};

/// What is to be listed.
struct ListRequest {
  std::string bucket = {};
  std::string prefix = {};  ///< of keys
  /// Keys with a `/` after the prefix are folders, up to it. Default: false
  bool by_folder = false;
  std::string page = {};  ///< what the page before named as the next one; empty: the first
  int most = 1000;        ///< keys and folders of a page
};

struct ListedObject {
  std::string key = {};
  ObjectVersion version = {};  ///< without a date
};

struct ListedPage {
  std::vector<ListedObject> objects = {};
  std::vector<std::string> folders = {};  ///< prefixes that end in `/`
  std::string next = {};                  ///< empty: this is the last
};

/// A store of objects in buckets, which can be listed.
class BucketStore : public ObjectStore {
 public:
  [[nodiscard]] virtual std::shared_ptr<StoreCall> list(const ListRequest& request) = 0;
  /// Reads the answer to `list`. Throws `kParse`.
  [[nodiscard]] virtual ListedPage parse_page(std::string_view body) const = 0;
  /// Begins to write the object at a URL, without asking for anything yet. Throws `kInvalidArgument` where the URL
  /// names no object, and for options that cannot be.
  [[nodiscard]] virtual std::unique_ptr<StoreUpload> upload(const HttpCalls& calls, const std::string& url,
                                                            const OutputOptions& options) = 0;
  /// A call about the object itself: a DELETE removes it, whether or not it is there. Throws `kInvalidArgument` where
  /// the URL names no object.
  [[nodiscard]] virtual std::shared_ptr<StoreCall> call_of_object(const std::string& url) = 0;
  /// False once it has answered that it implements this condition of what is written not; then what is there is looked
  /// at before, and of two that write in the same moment both may.
  [[nodiscard]] virtual bool keeps_if_absent() const { return true; }
  [[nodiscard]] virtual bool keeps_if_version() const { return true; }
  /// Of its URLs: `s3`.
  [[nodiscard]] virtual std::string scheme() const = 0;
  /// Tells this store from others in which the same URLs name other objects: its endpoint.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace millrace
