/* A library with NVTX of its own, as NVIDIA's libraries are. */
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <wchar.h>

static nvtxEventAttributes_t attributes(void) {
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    return attributes;
}

int push(const char *message) { return nvtxRangePushA(message); }

int push_wide(void) { return nvtxRangePushW(L"wïde"); }

int pop(void) { return nvtxRangePop(); }

uint64_t start(const char *message) { return nvtxRangeStartA(message); }

void end(uint64_t range) { nvtxRangeEnd(range); }

void mark(const char *message) { nvtxMarkA(message); }

/* Ranges of two domains that overlap, each with a payload. */
void overlap(void) {
    nvtxDomainHandle_t first = nvtxDomainCreateA("first");
    nvtxDomainHandle_t second = nvtxDomainCreateA("second");
    nvtxDomainNameCategoryA(first, 1, "a category");
    nvtxEventAttributes_t range = attributes();
    range.category = 1;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = nvtxDomainRegisterStringA(first, "kept");
    range.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    range.payload.iValue = -7;
    nvtxDomainRangePushEx(first, &range);
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = "text";
    range.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
    range.payload.fValue = 0.5f;
    nvtxDomainRangePushEx(second, &range);
    nvtxDomainRangePop(first);
    nvtxDomainRangePop(second);
    nvtxDomainDestroy(second);
    nvtxDomainDestroy(first);
}
