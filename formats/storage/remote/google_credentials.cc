#include "millrace/formats/storage/remote/google_credentials.h"

#include <atomic>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/google_token_exchange.h"
#include "millrace/formats/storage/remote/small_file.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Tokens = Refreshed<GoogleToken>;
using Done = std::function<void(Tokens::Fetched)>;
using Ready = std::function<void(PreparedRequest)>;
using std::chrono::milliseconds;

constexpr const char* kFileVariable = "GOOGLE_APPLICATION_CREDENTIALS";
constexpr const char* kMetadataHost = "metadata.google.internal";
constexpr std::string_view kMetadataPath = "/computeMetadata/v1/instance/service-accounts/default/token";
// Where there is no metadata server, nobody shall wait long for that to be known.
constexpr HttpDeadlines kProbeDeadlines{.whole = milliseconds(1'000)};
constexpr int kMostProbes = 2;
constexpr size_t kMostFileBytes = 1 << 20;

// What credentials are asked of, one request at a time.
class Source final : public std::enable_shared_from_this<Source> {
 public:
  Source(std::shared_ptr<HttpEngine> engine, GoogleCredentialOptions options)
      : engine_(std::move(engine)), options_(std::move(options)) {}

  void fetch(const Done& done) noexcept {
    guarded(done, [&] {
      if (const auto token = own()) return done({.value = token});
      engine_->run_aside([self = shared_from_this(), done](const std::stop_token&) { self->look(done); });
    });
  }

 private:
  struct File {
    GoogleCredentialsFile content;
    std::string source;
  };

  template <typename Function>
  static void guarded(const Done& done, Function function) noexcept {
    std::string reason;
    try {
      return function();
    } catch (const std::system_error& error) {
      reason = error.what();  // no thread can be started
    } catch (...) {
      reason = current_reason();
    }
    done({.error = std::move(reason)});
  }

  // On a thread of its own, since it waits for files and signs.
  void look(const Done& done) noexcept {
    guarded(done, [&] {
      std::string in_vain;
      if (const auto file = find_file(in_vain)) return ask_endpoint(*file, done);
      ask_metadata_server(std::move(in_vain), done);
    });
  }

  // A variable that is set to nothing is taken for one that is not set.
  std::optional<std::string> variable(const char* name) const {
    std::optional<std::string> value = options_.environment(name);
    if (value && value->empty()) value.reset();
    return value;
  }

  static std::shared_ptr<const GoogleToken> anonymous(const std::string& why) {
    return std::make_shared<GoogleToken>(GoogleToken{.source = "anonymous: " + why});
  }

  // What needs no request.
  std::shared_ptr<const GoogleToken> own() const {
    if (options_.anonymous) return anonymous("as the options say");
    if (!options_.access_token.empty()) {
      return std::make_shared<GoogleToken>(GoogleToken{.access_token = options_.access_token,
                                                       .source = "access token of the options",
                                                       .quota_project = quota_project("")});
    }
    if (!options_.file.empty()) return nullptr;
    for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
      if (variable(name)) return anonymous(fmt::format("{} is set", name));
    }
    return options_.is_emulator.value_or(false) ? anonymous("of an emulator") : nullptr;
  }

  std::string quota_project(const std::string& of_file) const {
    return variable("GOOGLE_CLOUD_QUOTA_PROJECT").value_or(of_file);
  }

  std::optional<File> find_file(std::string& in_vain) const {
    if (!options_.file.empty()) return read_file(options_.file);
    if (const auto path = variable(kFileVariable)) return read_file(*path);
    in_vain = fmt::format("{} is not set", kFileVariable);
    std::string folder;
    if (const auto set = variable("CLOUDSDK_CONFIG")) {
      folder = *set;
    } else if (const auto home = variable("HOME")) {
      folder = *home + "/.config/gcloud";
    } else {
      in_vain += ", HOME is not set";
      return std::nullopt;
    }
    const std::string path = folder + "/application_default_credentials.json";
    if (auto text = read_small_file(path, kMostFileBytes)) return parse_file(*text, path);
    in_vain += fmt::format(", there is no {}", printable(path));
    return std::nullopt;
  }

  static File read_file(const std::string& path) {
    const std::optional<std::string> text = read_small_file(path, kMostFileBytes);
    if (!text) {
      throw ErrorException({.code = ErrorCode::kIo,
                            .message = "cannot read the Google credentials: there is no such file",
                            .shard = path});
    }
    return parse_file(*text, path);
  }

  static File parse_file(const std::string& text, const std::string& path) {
    File file{.content = parse_google_credentials(text, path)};
    file.source = source_of(file.content, path);
    return file;
  }

  static std::string source_of(const GoogleCredentialsFile& file, const std::string& path) {
    const auto shown = [](const std::string& account) { return excerpt(printable(account), 200); };
    std::string source = fmt::format("user of {}", path);
    if (file.type == GoogleCredentialsFile::Type::kExternalAccount)
      source = fmt::format("external account of {}", path);
    if (file.type == GoogleCredentialsFile::Type::kServiceAccount) {
      source = fmt::format("service account {} of {}", shown(file.client_email), path);
    }
    if (!file.impersonation) return source;
    return fmt::format("service account {} impersonated by the {}", shown(file.impersonation->account), source);
  }

  void ask_endpoint(const File& file, const Done& done) {
    const auto asked = [source = file.source, quota_project = quota_project(file.content.quota_project),
                        done](const GoogleTokenResult& result) {
      guarded(done, [&] {
        if (result.token) return done(taken(*result.token, result.asked_at, source, quota_project));
        done({.error = fmt::format("no access token for the {}: {}", source, result.error)});
      });
    };
    ask_for_google_token(
        {engine_, budget_, options_.retries}, file.content,
        fmt::format("https://www.googleapis.com/auth/devstorage.{}", options_.read_only ? "read_only" : "read_write"),
        asked);
  }

  static Tokens::Fetched taken(GoogleTokenAnswer answer, std::chrono::system_clock::time_point asked_at,
                               const std::string& source, std::string quota_project) {
    return {.value = std::make_shared<GoogleToken>(GoogleToken{.access_token = std::move(answer.access_token),
                                                               .source = source,
                                                               .quota_project = std::move(quota_project)}),
            .ends = asked_at + answer.expires_in};
  }

  void ask_metadata_server(std::string in_vain, const Done& done) {
    const std::string host = variable("GCE_METADATA_HOST").value_or(kMetadataHost);
    // One that has given a token before is there.
    const bool is_known = knows_metadata_server_;
    const auto request = [host, is_known](const Ready& ready) {
      HttpRequest get{.url = fmt::format("http://{}{}", host, kMetadataPath),
                      .deadlines = is_known ? kGoogleTokenDeadlines : kProbeDeadlines,
                      .without_proxy = true};
      get.headers.add("Metadata-Flavor", "Google");
      ready({.request = std::move(get)});
    };
    const auto outcome = [probes = 0, is_known](const HttpResponse& response) mutable {
      const bool is_last = !is_known && ++probes >= kMostProbes;
      return is_last ? AttemptOutcome::kAnswered : google_token_outcome(response);
    };
    const auto answered = [self = shared_from_this(), host, in_vain = std::move(in_vain), is_known, done,
                           now = engine_->wall_now()](const HttpResponse& response, int attempts) {
      done(self->of_metadata_server(host, in_vain, is_known, now, response, attempts));
    };
    static_cast<void>(RetriedCall::start({engine_, budget_, options_.retries},
                                         {.request = request, .outcome = outcome, .done = answered}));
  }

  Tokens::Fetched of_metadata_server(const std::string& host, const std::string& in_vain, bool is_known,
                                     std::chrono::system_clock::time_point asked_at, const HttpResponse& response,
                                     int attempts) noexcept {
    try {
      const std::string* const flavor = response.head.headers.find("Metadata-Flavor");
      const bool is_google = flavor != nullptr && *flavor == "Google";
      const bool is_whole = response.failure == HttpFailure::kNone;
      std::string reason;
      if (is_whole && is_google && response.head.status == 200) {
        try {
          Tokens::Fetched token = taken(parse_google_token(response.body), asked_at,
                                        fmt::format("metadata server {}", printable(host)), quota_project(""));
          knows_metadata_server_ = true;
          return token;
        } catch (const ErrorException& exception) {
          reason = exception.error().message;
        }
      } else if (!is_whole || is_google) {
        reason = google_token_refusal(response);
      } else {
        reason = "what answers is none";
      }
      const bool is_cancelled = response.failure == HttpFailure::kCancelled;
      const bool is_without_account = is_whole && response.head.status == 404;
      const bool is_there = is_google && !is_without_account;
      if (is_known || is_cancelled || is_there) {
        return {.error = fmt::format("no access token of the metadata server {}: {}{}", printable(host), reason,
                                     attempts_text(attempts))};
      }
      return {.value = anonymous(fmt::format("{}, no metadata server at {} ({})", in_vain, printable(host), reason))};
    } catch (...) {
      return {.error = current_reason()};
    }
  }

  const std::shared_ptr<HttpEngine> engine_;
  const GoogleCredentialOptions options_;
  const std::shared_ptr<RetryBudget> budget_ = std::make_shared<RetryBudget>();
  std::atomic<bool> knows_metadata_server_ = false;
};

}  // namespace

std::shared_ptr<Refreshed<GoogleToken>> google_credentials(std::shared_ptr<HttpEngine> engine,
                                                           GoogleCredentialOptions options) {
  auto source = std::make_shared<Source>(engine, std::move(options));
  return std::make_shared<Tokens>(std::move(engine), [source](const Done& done) { source->fetch(done); });
}

}  // namespace millrace
