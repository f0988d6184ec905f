#include "tests/formats/storage/remote/google_server.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "millrace/formats/base64.h"
#include "millrace/formats/text/lower_case.h"
#include "tests/formats/storage/remote/accepting_thread.h"
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
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

std::string percent_decode(std::string_view text, bool plus_is_space = false) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::map<std::string, std::string> parse_form(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
    const size_t equals = std::min(field.find('='), field.size());
    fields[percent_decode(field.substr(0, equals), true)] =
        percent_decode(field.substr(std::min(equals + 1, field.size())), true);
  }
  return fields;
}

std::string from_base64url(std::string text) {
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  return decode_base64(text).value_or("");
}

bool verifies(const std::string& text, const std::string& signature, const std::string& public_key) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(public_key.data(), static_cast<int>(public_key.size())));
  const std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  if (EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1) return false;
  const auto bytes = [](const std::string& of) { return reinterpret_cast<const unsigned char*>(of.data()); };
  return EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(text), text.size()) == 1;
}

using Answer = GoogleAnswer;
using Object = GoogleObject;

Answer oauth_error(const std::string& error, const std::string& description) {
  return {.status = 400, .body = Json{{"error", error}, {"error_description", description}}.dump()};
}

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
    if (path == "/token") return token(request);
    if (path == "/computeMetadata/v1/instance/service-accounts/default/token") return metadata(request);
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

  std::string issue() {
    std::string token = fmt::format("{}-{}", options_.token_mark, ++num_tokens_);
    tokens_[token] = options_.now() + options_.token_life;
    return token;
  }
  std::string token_body() {
    return Json{{"access_token", issue()}, {"expires_in", options_.token_life.count()}, {"token_type", "Bearer"}}
        .dump();
  }

  Answer token(const GoogleRequest& request) {
    auto form = parse_form(request.body);
    const auto type = request.headers.find("content-type");
    if (request.method != "POST" || type == request.headers.end() ||
        type->second != "application/x-www-form-urlencoded") {
      return oauth_error("invalid_request", "no form was posted");
    }
    if (form["grant_type"] == "refresh_token") {
      if (form["client_id"] != options_.client_id || form["client_secret"] != options_.client_secret) {
        return oauth_error("invalid_client", "The OAuth client was not found.");
      }
      if (form["refresh_token"] != options_.refresh_token) {
        return oauth_error("invalid_grant", "Token has been expired or revoked.");
      }
      return {.body = token_body()};
    }
    if (form["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer") {
      return oauth_error("unsupported_grant_type", "Invalid grant_type");
    }
    const std::string why = why_refused(form["assertion"]);
    return why.empty() ? Answer{.body = token_body()} : oauth_error("invalid_grant", why);
  }

  std::string why_refused(const std::string& assertion) const {
    const size_t first = assertion.find('.');
    const size_t last = assertion.rfind('.');
    if (first == std::string::npos || first == last) return "the assertion has not three parts";
    if (!verifies(assertion.substr(0, last), from_base64url(assertion.substr(last + 1)), options_.public_key)) {
      return "Invalid JWT Signature.";
    }
    const Json header = Json::parse(from_base64url(assertion.substr(0, first)));
    const Json claims = Json::parse(from_base64url(assertion.substr(first + 1, last - first - 1)));
    if (header.at("alg") != "RS256" || header.at("typ") != "JWT") return "the header is another";
    if (claims.at("iss") != options_.account) return "Invalid issuer";
    if (claims.at("aud") != "http://" + host() + "/token") return "Invalid audience";
    const auto scope = claims.at("scope").get<std::string>();
    const std::string known = "https://www.googleapis.com/auth/devstorage.";
    if (scope != known + "read_write" && scope != known + "read_only") return "Invalid scope";
    const auto now = std::chrono::floor<std::chrono::seconds>(options_.now().time_since_epoch()).count();
    const auto issued_at = claims.at("iat").get<int64_t>();
    const auto ends_at = claims.at("exp").get<int64_t>();
    const bool is_in_time = issued_at <= now && now < ends_at && ends_at - issued_at <= 3600;
    return is_in_time ? "" : "Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
  }

  Answer metadata(const GoogleRequest& request) {
    const auto flavor = request.headers.find("metadata-flavor");
    if (flavor == request.headers.end() || flavor->second != "Google") return {.status = 403, .body = "Forbidden"};
    if (!options_.has_account) return {.status = 404, .headers = {{"Metadata-Flavor", "Google"}}, .body = "Not Found"};
    return {.headers = {{"Metadata-Flavor", "Google"}}, .body = token_body()};
  }

  std::optional<Answer> refuse(const GoogleRequest& request) const {
    const auto field = request.headers.find("authorization");
    if (field == request.headers.end()) {
      if (options_.is_public) return std::nullopt;
      return google_api_error(401, "required",
                              "Anonymous caller does not have storage.objects.get access to the object.");
    }
    const auto found = tokens_.find(field->second.substr(std::min<size_t>(7, field->second.size())));
    const bool is_valid =
        field->second.starts_with("Bearer ") && found != tokens_.end() && options_.now() < found->second;
    return is_valid ? std::nullopt : std::optional(google_api_error(401, "authError", "Invalid Credentials"));
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
  std::map<std::string, system_clock::time_point> tokens_;  // and when they end
  std::vector<GoogleRequest> requests_;
  uint64_t num_puts_ = 0;
  uint64_t num_tokens_ = 0;

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
    http::async_write(socket_, response_, [self = shared_from_this()](const error_code& error, size_t) {
      if (!error) self->read();
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
std::vector<GoogleRequest> GoogleServer::requests() const { return server_->requests(); }

}  // namespace millrace::test
