#include "tests/formats/storage/remote/google_server.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "millrace/formats/text/lower_case.h"
#include "tests/formats/storage/remote/accepting_thread.h"
#include "tests/formats/storage/remote/google_tokens.h"
#include "tests/formats/storage/remote/google_uploads.h"

namespace millrace::test {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Json = nlohmann::json;
using Kind = GoogleFault::Kind;
using std::chrono::system_clock;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

using Answer = GoogleAnswer;
using Object = GoogleObject;

}  // namespace

RsaKey make_rsa_key(unsigned bits) {
  const std::unique_ptr<EVP_PKEY, Free> key(EVP_RSA_gen(bits));
  const std::unique_ptr<BIO, Free> secret(BIO_new(BIO_s_mem()));
  const std::unique_ptr<BIO, Free> open(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_bio_PUBKEY(open.get(), key.get());
  return {.private_key = text_of(secret.get()), .public_key = text_of(open.get())};
}

class GoogleServer::Server {
 public:
  explicit Server(GoogleServerOptions options) : options_(std::move(options)) {
    if (!options_.now) options_.now = &system_clock::now;
    thread_.start([this](tcp::socket socket) { serve(std::move(socket)); });
  }

  std::string host() const { return fmt::format("127.0.0.1:{}", thread_.port()); }

  std::string put(const std::string& bucket, const std::string& key, std::string content) {
    const std::lock_guard lock(mutex_);
    std::string generation = fmt::format("{}", 1'700'000'000'000'000 + ++num_puts_);
    buckets_[bucket][key] = {.content = std::move(content), .generation = generation, .metadata = ""};
    return generation;
  }
  void remove(const std::string& bucket, const std::string& key) {
    const std::lock_guard lock(mutex_);
    buckets_[bucket].erase(key);
  }
  std::optional<std::string> content(const std::string& bucket, const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end() || !found->second.contains(key)) return std::nullopt;
    return found->second.at(key).content;
  }
  std::vector<std::string> keys(const std::string& bucket) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end()) return keys;
    for (const auto& [key, object] : found->second) keys.push_back(key);
    return keys;
  }
  size_t num_sessions() const {
    const std::lock_guard lock(mutex_);
    return uploads_.num_sessions();
  }
  std::vector<GoogleRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  class Connection;

  void serve(tcp::socket socket);

  GoogleFault note(GoogleRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      request.number = requests_.size();
      requests_.push_back(request);
    }
    return options_.fault ? options_.fault(request) : GoogleFault();
  }

  GoogleUploadFault upload_fault(const GoogleRequest& request) const {
    return options_.upload_fault ? options_.upload_fault(request) : GoogleUploadFault::kNone;
  }

  Answer answer(const GoogleRequest& request, const GoogleFault& fault) {
    const std::lock_guard lock(mutex_);
    const size_t question = std::min(request.target.find('?'), request.target.size());
    const std::string path = request.target.substr(0, question);
    auto query = parse_form(std::string_view(request.target).substr(std::min(question + 1, request.target.size())));
    if (auto given = tokens_.answer(request, "http://" + host())) return *std::move(given);
    const bool is_upload = path.starts_with("/upload/");
    const std::string_view buckets = is_upload ? "/upload/storage/v1/b/" : "/storage/v1/b/";
    if (!path.starts_with(buckets)) return {.status = 404, .body = "Not Found"};
    const size_t end = path.find("/o", buckets.size());
    const std::string bucket = percent_decode(path.substr(buckets.size(), end - buckets.size()));
    if (const auto refusal = refuse(request)) return *refusal;
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end()) return google_api_error(404, "notFound", "The specified bucket does not exist.");
    if (is_upload) {
      const std::string generation = fmt::format("{}", 1'700'000'000'000'000 + ++num_puts_);
      return uploads_.answer(request, query, found->second, fault, "http://" + host(), generation);
    }
    if (path.size() == end + 2) return list(found->second, query);
    return media(bucket, percent_decode(path.substr(end + 3)), request, query);
  }

  std::optional<Answer> refuse(const GoogleRequest& request) const {
    const auto field = request.headers.find("authorization");
    if (field == request.headers.end()) {
      if (options_.is_public) return std::nullopt;
      return google_api_error(401, "required",
                              "Anonymous caller does not have storage.objects.get access to the object.");
    }
    return tokens_.is_valid(field->second) ? std::nullopt
                                           : std::optional(google_api_error(401, "authError", "Invalid Credentials"));
  }

  static Answer list(const std::map<std::string, Object>& objects, std::map<std::string, std::string>& query) {
    const std::string& prefix = query["prefix"];
    const std::string& delimiter = query["delimiter"];
    const std::string from = query["pageToken"];
    const size_t most = query.contains("maxResults") ? std::stoul(query["maxResults"]) : 1000;
    Json page = Json::object();
    std::set<std::string> prefixes;
    size_t results = 0;
    for (const auto& [key, object] : objects) {
      if (!key.starts_with(prefix) || key < from) continue;
      const size_t at = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
      const std::string folder = at == std::string::npos ? "" : key.substr(0, at + delimiter.size());
      if (prefixes.contains(folder)) continue;
      if (results++ == most) {
        page["nextPageToken"] = key;
        break;
      }
      if (!folder.empty()) {
        prefixes.insert(folder);
      } else {
        page["items"].push_back(
            {{"name", key}, {"size", fmt::format("{}", object.content.size())}, {"generation", object.generation}});
      }
    }
    if (!prefixes.empty()) page["prefixes"] = prefixes;
    return {.headers = {{"Content-Type", "application/json; charset=UTF-8"}}, .body = page.dump()};
  }

  Answer media(const std::string& bucket, const std::string& key, const GoogleRequest& request,
               std::map<std::string, std::string>& query) {
    auto& objects = buckets_[bucket];
    const auto found = objects.find(key);
    const std::string missing = fmt::format("No such object: {}/{}", bucket, key);
    if (found == objects.end()) return {.status = 404, .body = missing};
    const Object& object = found->second;
    if (query.contains("ifGenerationMatch") && query["ifGenerationMatch"] != object.generation) {
      return google_api_error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.");
    }
    if (query.contains("generation") && query["generation"] != object.generation) {
      return {.status = 404, .body = missing};
    }
    if (request.method == "DELETE") {
      objects.erase(found);
      return {.status = 204};
    }
    if (query["alt"] != "media") return {.body = google_resource(key, object)};
    Answer answer{.body = object.content};
    answer.headers = {{"x-goog-generation", object.generation},
                      {"ETag", fmt::format("\"C{}EAE=\"", object.generation)},
                      {"x-guploader-uploadid", fmt::format("upload-{}", request.number)}};
    const auto field = request.headers.find("range");
    if (field == request.headers.end()) return answer;
    size_t first = 0;
    size_t last = 0;
    const char* const end = field->second.data() + field->second.size();
    const char* const dash = std::from_chars(field->second.data() + 6, end, first).ptr;
    std::from_chars(dash + 1, end, last);
    if (first >= object.content.size()) {
      return {.status = 416, .headers = {{"Content-Range", fmt::format("bytes */{}", object.content.size())}}};
    }
    last = std::min(last, object.content.size() - 1);
    answer.status = 206;
    answer.body = object.content.substr(first, last - first + 1);
    answer.headers["Content-Range"] = fmt::format("bytes {}-{}/{}", first, last, object.content.size());
    return answer;
  }

  GoogleServerOptions options_;

  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, Object>> buckets_;
  GoogleUploads uploads_;
  GoogleTokens tokens_{options_};
  std::vector<GoogleRequest> requests_;
  uint64_t num_puts_ = 0;

  AcceptingThread thread_;
};

// One connection: a request, its answer, the next one.
class GoogleServer::Server::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, tcp::socket socket) : server_(server), socket_(std::move(socket)) {}

  void read() {
    constexpr uint64_t kMostBody = 64 << 20;
    parser_.emplace();
    parser_->body_limit(kMostBody);
    http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
      if (!error) self->read_body();
    });
  }

 private:
  void read_body() {
    switch (server_.upload_fault(request())) {
      case GoogleUploadFault::kNone: break;
      case GoogleUploadFault::kReset: return reset_in_body();
      case GoogleUploadFault::kStall:
        return socket_.async_wait(tcp::socket::wait_error, [self = shared_from_this()](const error_code&) {});
    }
    http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
      if (!error) self->answer();
    });
  }

  void reset_in_body() {
    http::async_read_some(socket_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code&, size_t) { self->reset(); });
  }

  void reset() {
    socket_.set_option(asio::socket_base::linger(true, 0));
    socket_.close();
  }

  GoogleRequest request() const {
    const auto& message = parser_->get();
    GoogleRequest request{.method = std::string(message.method_string()),
                          .target = std::string(message.target()),
                          .headers = {},
                          .body = message.body()};
    for (const auto& field : message) {
      request.headers[lower_case(std::string(field.name_string()))] = std::string(field.value());
    }
    return request;
  }

  void answer() {
    GoogleRequest request = this->request();
    GoogleFault fault = server_.note(request);
    if (fault.kind == Kind::kHang) return wait_for_close();
    if (fault.kind == Kind::kReset) return reset();
    Answer answer{.status = fault.status, .headers = std::move(fault.headers), .body = std::move(fault.body)};
    if (fault.kind != Kind::kAnswer) answer = server_.answer(request, fault);
    if (fault.kind == Kind::kLoseAnswer) return reset();
    response_ = {};
    response_.result(static_cast<unsigned>(answer.status));
    response_.version(11);
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    if (fault.kind == Kind::kPartAsWhole && response_.result() == http::status::partial_content) response_.result(200);
    if (fault.kind == Kind::kChunked) response_.chunked(true);
    if (fault.kind == Kind::kResetInBody || fault.kind == Kind::kCloseInBody || fault.kind == Kind::kHangInBody) {
      return write_half(fault.kind);
    }
    http::async_write(
        socket_, response_,
        [self = shared_from_this(), ends = fault.kind == Kind::kSilentClose](const error_code& error, size_t) {
          if (error) return;
          if (ends) return self->socket_.close();
          self->read();
        });
  }

  void write_half(Kind kind) {
    std::ostringstream all;
    all << response_;
    half_ = all.str();
    half_.resize(half_.size() - (response_.body().size() + 1) / 2);
    asio::async_write(socket_, asio::buffer(half_), [self = shared_from_this(), kind](const error_code&, size_t) {
      if (kind == Kind::kHangInBody) return self->wait_for_close();
      if (kind == Kind::kCloseInBody) return self->socket_.close();
      self->reset();
    });
  }

  void wait_for_close() {
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code&) {});
  }

  Server& server_;  // whose context owns this
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::string half_;  // of it
};

void GoogleServer::Server::serve(tcp::socket socket) {
  socket.set_option(tcp::no_delay(true));
  std::make_shared<Connection>(*this, std::move(socket))->read();
}

GoogleServer::GoogleServer(GoogleServerOptions options) : server_(std::make_unique<Server>(std::move(options))) {}
GoogleServer::~GoogleServer() = default;
std::string GoogleServer::put(const std::string& bucket, const std::string& key, std::string content) {
  return server_->put(bucket, key, std::move(content));
}
void GoogleServer::remove(const std::string& bucket, const std::string& key) { server_->remove(bucket, key); }
std::optional<std::string> GoogleServer::content(const std::string& bucket, const std::string& key) const {
  return server_->content(bucket, key);
}
std::vector<std::string> GoogleServer::keys(const std::string& bucket) const { return server_->keys(bucket); }
size_t GoogleServer::num_sessions() const { return server_->num_sessions(); }
std::string GoogleServer::host() const { return server_->host(); }
std::string GoogleServer::endpoint() const { return "http://" + server_->host(); }
std::string GoogleServer::token_uri() const { return endpoint() + "/token"; }
std::string GoogleServer::impersonation_url() const {
  return fmt::format("{}/v1/projects/-/serviceAccounts/{}:generateAccessToken", endpoint(),
                     GoogleServerOptions::kImpersonated);
}
std::vector<GoogleRequest> GoogleServer::requests() const { return server_->requests(); }

}  // namespace millrace::test
