#include "tests/formats/storage/remote/credential_server.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "millrace/formats/text/lower_case.h"
#include "tests/formats/storage/remote/accepting_thread.h"

namespace millrace::test {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::asio::ip::tcp;

std::string decoded(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      result += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      result += text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

std::map<std::string, std::string> form_of(const std::string& body) {
  std::map<std::string, std::string> form;
  for (size_t begin = 0; begin < body.size();) {
    const size_t end = std::min(body.find('&', begin), body.size());
    const std::string field = body.substr(begin, end - begin);
    const size_t sign = std::min(field.find('='), field.size());
    form[decoded(field.substr(0, sign))] = sign < field.size() ? decoded(field.substr(sign + 1)) : "";
    begin = end + 1;
  }
  return form;
}

CredentialRequest request_of(const http::request<http::string_body>& message) {
  CredentialRequest request{
      .method = std::string(message.method_string()), .path = std::string(message.target()), .body = message.body()};
  for (const auto& field : message) {
    request.headers[lower_case(std::string(field.name_string()))] = std::string(field.value());
  }
  const auto type = request.headers.find("content-type");
  if (type != request.headers.end() && type->second.starts_with("application/x-www-form-urlencoded")) {
    request.form = form_of(request.body);
  }
  return request;
}

std::string field_of(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

CredentialAnswer sts_error(int status, const std::string& code, const std::string& message) {
  return {.status = status,
          .body = fmt::format("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>"
                              "<Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error>"
                              "<RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId></ErrorResponse>",
                              code, message)};
}

CredentialAnswer of_sts(const CredentialRequest& request, const ServedCredentials& served) {
  if (field_of(request.form, "Action") != "AssumeRoleWithWebIdentity" ||
      field_of(request.form, "Version") != "2011-06-15") {
    return sts_error(400, "InvalidAction", "Could not find operation");
  }
  if (field_of(request.form, "RoleArn").empty() || field_of(request.form, "RoleSessionName").empty()) {
    return sts_error(400, "ValidationError", "a field is missing");
  }
  if (field_of(request.form, "WebIdentityToken") != served.web_identity_token) {
    return sts_error(400, "InvalidIdentityToken", "The token is another");
  }
  return {.body =
              fmt::format("<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"
                          "  <AssumeRoleWithWebIdentityResult>\n    <Audience>client</Audience>\n    <Credentials>\n"
                          "      <SessionToken>{}</SessionToken>\n      <SecretAccessKey>{}</SecretAccessKey>\n"
                          "      <Expiration>{}</Expiration>\n      <AccessKeyId>{}</AccessKeyId>\n    </Credentials>\n"
                          "  </AssumeRoleWithWebIdentityResult>\n</AssumeRoleWithWebIdentityResponse>",
                          served.session_token, served.secret_access_key, served.expiration, served.access_key_id)};
}

std::string json_of(const ServedCredentials& served, const std::string& more) {
  return fmt::format(R"({{{}"AccessKeyId": "{}", "SecretAccessKey": "{}", "Token": "{}", "Expiration": "{}"}})", more,
                     served.access_key_id, served.secret_access_key, served.session_token, served.expiration);
}

CredentialAnswer of_instance(const CredentialRequest& request, const ServedCredentials& served) {
  const std::string path = "/latest/meta-data/iam/security-credentials/";
  if (request.path == "/latest/api/token") {
    if (request.method != "PUT") return {.status = 405};
    if (field_of(request.headers, "x-aws-ec2-metadata-token-ttl-seconds").empty()) return {.status = 400};
    return {.body = served.instance_token};
  }
  if (field_of(request.headers, "x-aws-ec2-metadata-token") != served.instance_token) return {.status = 401};
  if (served.role.empty()) return {.status = 404};
  if (request.path == path) return {.body = served.role};
  if (request.path != path + served.role) return {.status = 404};
  return {.body = json_of(served, R"("Code": "Success", "Type": "AWS-HMAC", )")};
}

CredentialAnswer answer_to(const CredentialRequest& request, const ServedCredentials& served) {
  if (request.method == "POST" && request.path == "/") return of_sts(request, served);
  if (request.path.starts_with("/latest/")) return of_instance(request, served);
  if (request.method == "GET" && request.path == "/container") {
    if (field_of(request.headers, "authorization") != served.container_authorization) {
      return {.status = 401, .body = R"({"code": "AccessDenied", "message": "The token is another"})"};
    }
    return {.body = json_of(served, "")};
  }
  return {.status = 404, .body = "<html><body>Not Found</body></html>"};
}

}  // namespace

class CredentialServer::Server {
 public:
  explicit Server(std::function<std::optional<CredentialAnswer>(const CredentialRequest&)> fault)
      : fault_(std::move(fault)) {
    thread_.start([this](tcp::socket socket) { std::make_shared<Connection>(*this, std::move(socket))->read(); });
  }

  uint16_t port() const { return thread_.port(); }
  void set(ServedCredentials served) {
    const std::lock_guard lock(mutex_);
    served_ = std::move(served);
  }
  std::vector<CredentialRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  // One connection: a request, its answer, the next one.
  struct Connection : std::enable_shared_from_this<Connection> {
    Connection(Server& of, tcp::socket connected) : server(of), socket(std::move(connected)) {}

    void read() {
      request = {};
      http::async_read(socket, buffer, request, [self = shared_from_this()](const auto& error, size_t) {
        if (!error) self->answer();
      });
    }
    void answer() {
      const CredentialAnswer given = server.answer(request_of(request));
      if (given.hangs) {  // until the other side has enough of it
        socket.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const auto&) {});
        return;
      }
      response = http::response<http::string_body>(static_cast<http::status>(given.status), 11);
      response.body() = given.body;
      response.prepare_payload();
      http::async_write(socket, response, [self = shared_from_this()](const auto& error, size_t) {
        if (!error) self->read();
      });
    }

    Server& server;  // whose context owns this
    tcp::socket socket;
    beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::response<http::string_body> response;
  };

  CredentialAnswer answer(CredentialRequest request) {
    ServedCredentials served;
    {
      const std::lock_guard lock(mutex_);
      request.number = requests_.size();
      requests_.push_back(request);
      served = served_;
    }
    if (fault_) {
      if (auto wrong = fault_(request)) return *std::move(wrong);
    }
    return answer_to(request, served);
  }

  const std::function<std::optional<CredentialAnswer>(const CredentialRequest&)> fault_;
  mutable std::mutex mutex_;
  ServedCredentials served_;
  std::vector<CredentialRequest> requests_;
  AcceptingThread thread_;
};

CredentialServer::CredentialServer(std::function<std::optional<CredentialAnswer>(const CredentialRequest&)> fault)
    : server_(std::make_unique<Server>(std::move(fault))) {}
CredentialServer::~CredentialServer() = default;
void CredentialServer::set(ServedCredentials credentials) { server_->set(std::move(credentials)); }
std::string CredentialServer::endpoint() const { return fmt::format("http://127.0.0.1:{}", server_->port()); }
std::vector<CredentialRequest> CredentialServer::requests() const { return server_->requests(); }

}  // namespace millrace::test
