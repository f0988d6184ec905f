#include "millrace/formats/storage/remote/json_web_token.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include "millrace/formats/error.h"
#include "tests/formats/storage/remote/google_server.h"

namespace millrace::json_web_token_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// The key of RFC 7515, appendix A.2, as PEM.
constexpr const char* kKey =
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIEowIBAAKCAQEAofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd/wWJcyQoTbji9k0\n"
    "l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL+yRT+SFd2lZS+pC\n"
    "gNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb/7OMg0LOL+bSf63kpaSHSX\n"
    "ndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uD\n"
    "Zlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxXFvUK+DWNmoudF8NAco9/h9iaGNj8\n"
    "q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQIDAQABAoIBABKucaRpzQorw35S\n"
    "bEUAVx8dYXUdZOlJcHtiWQ+dC6V8ljxAHj/PLyzTveyI5QO/xkObCyjIL303l2cf\n"
    "UhPu2MFaJdjVzqACXuOrLot/eSFvxjvqVidTtAZExqFRJ9mylUVAoLvhowVWmC1O\n"
    "n95fZCXxTUtxNEG1Xcc7m0rtzJKs45J+N/V9DP1edYH6USyPSWGp6wuA+KgHRnKK\n"
    "Vf9GRx80JQY7nVNkL17eHoTWEwga+lwi0FEoW9Y7lDtWXYmKBWhUE+U8PGxlJf8f\n"
    "40493HDw1WRQ/aSLoS4QTp3rn7gYgeHEvfJdkkf0UMhlknlo53M09EFPdadQ4TlU\n"
    "bjqKc50CgYEA4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH/5IB3jw3bcxGn6QLvnE\n"
    "tfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw/Py5PJdTJNPY8cQn7ouZ2KKDcmnPG\n"
    "BY5t7yLc1QlQ5xHdwW1VhvKn+nXqhJTBgIPgtldC+KDV5z+y2XDwGUcCgYEAuQPE\n"
    "fgmVtjL0Uyyx88GZFF1fOunH3+7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYs\n"
    "p1ZSe7zFYHj7C6ul7TjeLQeZD/YwD66t62wDmpe/HlB+TnBA+njbglfIsRLtXlnD\n"
    "zQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdcCgYAHAp9XcCSrn8wVkMVkKdb7\n"
    "DOX4IKjzdahm+ctDAJN4O/y7OW5FKebvUjdAIt2GuoTZ71iTG+7F0F+lP88jtjP4\n"
    "U4qe7VHoewl4MKOfXZKTe+YCS1XbNvfgwJ3Ltyl1OH9hWvu2yza7q+d5PCsDzqtm\n"
    "27kxuvULVeya+TEdAB1ijQKBgQCH/3r6YrVH/uCWGy6bzV1nGNOdjKc9tmkfOJmN\n"
    "54dxdixdpozCQ6U4OxZrsj3FcOhHBsqAHvX2uuYjagqvo3cOj1TRqNocX40omfCC\n"
    "Mx3bD1yPPf/6TI2XECva/ggqEY2mYzmIiA5LVVmc5nrybr+lssFKneeyxN2Wq93S\n"
    "0iJMdQKBgCGHewxzoa1r8ZMD0LETNrToK423K377UCYqXfg5XMclbrjPbEC3YI1Z\n"
    "NqMtuhdBJqUnBi6tjKMF+34Xf0CUN8ncuXGO2CAYvO8PdyCixHX52ybaDjy1FtCE\n"
    "6yUXjoKNXKvUm7MWGsAYH6f4IegOetN5NvmUMFStCSkh7ixZLkN1\n"
    "-----END RSA PRIVATE KEY-----\n";

TEST(JsonWebToken, SignsAsTheExampleOfTheSpecification) {
  // RFC 7515, A.2.1.
  const std::string text =
      "eyJhbGciOiJSUzI1NiJ9"
      ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
  EXPECT_EQ(encode_base64url(sign_rs256(text, kKey)),
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7"
            "AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4"
            "BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K"
            "0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqv"
            "hJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB"
            "p0igcN_IoypGlUPQGe77Rw");
}

TEST(JsonWebToken, HasHeaderClaimsAndSignature) {
  const std::string token = sign_json_web_token(R"({"iss":"joe"})", "key-1", kKey);
  const std::string signed_part =
      encode_base64url(R"({"alg":"RS256","typ":"JWT","kid":"key-1"})") + "." + encode_base64url(R"({"iss":"joe"})");
  EXPECT_EQ(token, signed_part + "." + encode_base64url(sign_rs256(signed_part, kKey)));
  EXPECT_TRUE(
      sign_json_web_token("{}", "", kKey)
          .starts_with(encode_base64url(R"({"alg":"RS256","typ":"JWT"})") + "." + encode_base64url("{}") + "."));
}

TEST(JsonWebToken, EncodesForUrls) {
  EXPECT_EQ(encode_base64url(""), "");
  EXPECT_EQ(encode_base64url("\x03\xec\xff\xe0\xc1"), "A-z_4ME");  // RFC 7515, appendix C
}

TEST(JsonWebToken, RefusesOtherKeysWithoutRepeatingThem) {
  std::string broken = kKey;
  broken.replace(200, 8, "SECRET--");
  const std::string encrypted =
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
      "AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n"
      "SECRETAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END RSA PRIVATE KEY-----\n";
  for (const std::string& key : {std::string(), std::string("SECRET"), broken, encrypted,
                                 test::make_rsa_key().public_key, test::make_rsa_key(1024).private_key}) {
    try {
      (void)sign_rs256("text", key);
      ADD_FAILURE() << key;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(exception.what(), HasSubstr("private key"));
      EXPECT_THAT(exception.what(), Not(HasSubstr("SECRET")));
    }
    EXPECT_EQ(ERR_peek_error(), 0U) << "left for a TLS connection of this thread";
  }
}

}  // namespace
}  // namespace millrace::json_web_token_test
