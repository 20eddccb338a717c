// SPDX-License-Identifier: Apache-2.0
// A token of an issuer whose key is RSA, and the public half of that key; nobody has the other
// half.
#pragma once

#include <string_view>

namespace c10dd::fuzz {

/// The key as a JSON Web Key Set.
inline constexpr std::string_view kRsaSet =
    R"({"keys":[{"kty":"RSA","kid":"r","use":"sig","alg":"RS256","e":"AQAB","n":")"
    "7it-XLosL-9l91Lr49ctLjCLfd5mgNat4CNrR-tah-SX7F9n6gFRiSok0Jigx_eU377SLvzJWI6ItMttqB2nOf-VDe1B"
    "J5Bsc9ZfHaGbuG-uBHzmSQpi5ILFSKI0m_4QCxegoWC2UL-mC-bQ6fx8-uTW3CWax1qGuRfdrx3vdOEMldbVj7yPH8_p"
    "sKz5HXq2vfDSR-v-Z3tAAlhgPJZvMbMLg_f6pIWaid9PQTTU2pFxloeP7ASIaWCLIbLYG3v0IrTNSKCYiTjxH9Vr8iAF"
    "xMjAYvIn6HdS_deZvTJ9Jpaft8uhLLxAmL8YOE9Cc4ASqYZi0R2mREO-XhF2Wo4SJQ"
    R"("}]})";
/// Ends in the year 2100.
inline constexpr std::string_view kRsaToken =
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InIiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlI"
    "iwiYXVkIjoiYzEwZGQiLCJzdWIiOiJ0cmFpbmVyIiwiZXhwIjo0MTAyNDQ0ODAwfQ.K8P4leKOCO2H3A4_k0HUIJLlWN"
    "LEvJ9_oCLFj32resNIf-Cqfkn1J-lgtEj2A0yEqthzlgDtEDmFCfoDbx8_dIZPDvM5bpnOoBcued9jC3fA233bEYipRb"
    "AN5rcvT2eUQgUVGfhJ-OjeAMb-JQsxb9yk1je2K10vDW1rFKeFdrOkFP22_CLofBSiKwOYaHD5tCNwjlj0IvyVJbfsSF"
    "dme2FbGiBgcuFEOPmTBVcWT9_WB8XuOou8OVcXK7eaOmVhRTpjAx7-4XiBN5oLvlppmcL4gF4dCtx2cl4kYXANn_SdOA"
    "2IlTYi-cHIHSspDGO8JdMgi0-qHWZWEkKlAZhMmA";

}  // namespace c10dd::fuzz
