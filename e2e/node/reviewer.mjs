// Reviews tokens of AWS for the API server, as the cloud's own webhook does, without the cloud: the signature
// of the presigned request is computed again from the one secret there is.
//
//   node reviewer.mjs CERTIFICATE KEY
//
// Prints its address once it listens. The key comes in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'

const [certificate, key] = process.argv.slice(2)
const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = process.env
const cluster = 'keyward-e2e'

const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, async (request, response) => {
  const parts = []
  for await (const part of request) parts.push(part)
  const review = JSON.parse(Buffer.concat(parts))
  let status
  try {
    status = { authenticated: true, user: { username: verify(review.spec.token), groups: ['aws'] } }
  } catch (error) {
    status = { authenticated: false, error: error.message }
  }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ apiVersion: review.apiVersion, kind: review.kind, status }))
})
server.listen(0, '127.0.0.1', () => console.log(`https://127.0.0.1:${server.address().port}`))

// Whose token it is; throws where it is nobody's.
function verify(token) {
  const prefix = 'k8s-aws-v1.'
  if (!token.startsWith(prefix)) throw new Error('not a token of AWS')
  const url = new URL(Buffer.from(token.slice(prefix.length), 'base64url').toString())
  const query = url.searchParams
  const [access, date, region, service, end] = query.get('X-Amz-Credential').split('/')
  if (access !== id || service !== 'sts' || end !== 'aws4_request') throw new Error('an unknown key')
  if (query.get('Action') !== 'GetCallerIdentity') throw new Error('a request for something else')
  const begin = Date.parse(query.get('X-Amz-Date').replace(/(....)(..)(..T..)(..)(..Z)/, '$1-$2-$3:$4:$5'))
  if (!(Math.abs(Date.now() - begin) < 15 * 60 * 1000)) throw new Error('a request of another time')
  const given = query.get('X-Amz-Signature')
  query.delete('X-Amz-Signature')
  const encode = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase())
  const canonical = [...query].map(([name, value]) => `${encode(name)}=${encode(value)}`).sort().join('&')
  const names = query.get('X-Amz-SignedHeaders')
  if (!names.split(';').includes('x-k8s-aws-id')) throw new Error('a token for no cluster')
  const values = { host: url.host, 'x-k8s-aws-id': cluster }
  const headers = names.split(';').map((name) => `${name}:${values[name]}\n`).join('')
  const empty = createHash('sha256').update('').digest('hex')
  const request = ['GET', url.pathname, canonical, headers, names, empty].join('\n')
  const hash = createHash('sha256').update(request).digest('hex')
  const scope = [date, region, service, end].join('/')
  const text = ['AWS4-HMAC-SHA256', query.get('X-Amz-Date'), scope, hash].join('\n')
  const hmac = (with_, what) => createHmac('sha256', with_).update(what).digest()
  const signer = [date, region, service, end].reduce(hmac, `AWS4${secret}`)
  const expected = hmac(signer, text).toString('hex')
  if (given.length !== expected.length || !timingSafeEqual(Buffer.from(given), Buffer.from(expected))) {
    throw new Error('a wrong signature')
  }
  return `aws:${access}`
}
