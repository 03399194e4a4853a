'use strict'

/**
 * The interop client built on KafkaJS.
 *
 *   create  BOOTSTRAP TOPIC PARTITIONS
 *   produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
 *   consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
 *
 * KafkaJS's own consumer always joins a group, so consuming goes through the cluster and broker objects
 * underneath it: the same requests, decoders and codecs, without the group.
 */

const fs = require('fs')
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const { createLogger } = require('kafkajs/src/loggers')
const LoggerConsole = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { loadCodecs } = require('./codecs')

const DEADLINE_MS = 90_000
const CHUNK = 500
const ACKS = { 0: 0, 1: 1, all: -1 }

function readRecords(path) {
  const data = fs.readFileSync(path)
  let position = 0
  const number = () => data.readInt32BE((position += 4) - 4)
  const long = () => data.readBigInt64BE((position += 8) - 8)
  const blob = () => {
    const size = number()
    return size < 0 ? null : data.subarray(position, (position += size))
  }
  const records = []
  while (position < data.length) {
    number()
    long()
    const timestamp = long()
    const record = { key: blob(), value: blob(), headers: {} }
    if (timestamp >= 0n) record.timestamp = timestamp.toString()
    for (let left = number(); left > 0; left--) {
      const name = blob().toString()
      const value = blob()
      record.headers[name] = name in record.headers ? [].concat(record.headers[name], [value]) : value
    }
    records.push(record)
  }
  return records
}

function blob(data) {
  const size = Buffer.alloc(4)
  size.writeInt32BE(data == null ? -1 : data.length)
  return data == null ? [size] : [size, data]
}

function encodeRecord(slot, record) {
  const prefix = Buffer.alloc(20)
  prefix.writeInt32BE(slot, 0)
  prefix.writeBigInt64BE(BigInt(record.offset), 4)
  prefix.writeBigInt64BE(BigInt(record.timestamp), 12)
  const headers = Object.entries(record.headers || {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => [name, one]),
  )
  const count = Buffer.alloc(4)
  count.writeInt32BE(headers.length)
  const parts = [prefix, ...blob(record.key), ...blob(record.value), count]
  for (const [name, value] of headers) parts.push(...blob(Buffer.from(name)), ...blob(value))
  return Buffer.concat(parts)
}

function connect(bootstrap) {
  return new Kafka({ brokers: [bootstrap], clientId: 'interop', logLevel: logLevel.ERROR })
}

async function create(bootstrap, topic, partitions) {
  const admin = connect(bootstrap).admin()
  await admin.connect()
  const created = await admin.createTopics({
    topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1 }],
  })
  await admin.disconnect()
  if (!created) throw new Error(`${topic} existed`)
}

async function produce(bootstrap, topic, lanes) {
  const types = {
    none: CompressionTypes.None,
    gzip: CompressionTypes.GZIP,
    snappy: CompressionTypes.Snappy,
    lz4: CompressionTypes.LZ4,
    zstd: CompressionTypes.ZSTD,
  }
  for (const lane of lanes) {
    const [partition, codec, acks, idempotent, path] = lane.split(':')
    const producer = connect(bootstrap).producer({
      idempotent: idempotent === '1',
      maxInFlightRequests: 1,
      createPartitioner: () => (choice) => choice.message.partition,
    })
    await producer.connect()
    const records = readRecords(path).map((record) => ({ ...record, partition: Number(partition) }))
    for (let start = 0; start < records.length; start += CHUNK) {
      const messages = records.slice(start, start + CHUNK)
      await producer.send({ topic, messages, acks: ACKS[acks], compression: types[codec] })
    }
    await producer.disconnect()
  }
}

async function consume(bootstrap, output, wanted) {
  const deadline = Date.now() + DEADLINE_MS
  const cluster = new Cluster({
    logger: createLogger({ level: logLevel.ERROR, logCreator: LoggerConsole }),
    socketFactory: socketFactory(),
    brokers: [bootstrap],
    clientId: 'interop',
    connectionTimeout: 5000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300000,
    retry: { retries: 5 },
    allowAutoTopicCreation: false,
    maxInFlightRequests: null,
    isolationLevel: 0,
  })
  await cluster.connect()
  const slots = wanted.map((argument, slot) => {
    const [topic, partition, count] = argument.split(':')
    return { slot, topic, partition: Number(partition), next: 0n, left: Number(count) }
  })
  await cluster.addMultipleTargetTopics([...new Set(slots.map((one) => one.topic))])
  await cluster.refreshMetadata()
  const file = fs.openSync(output, 'w')
  for (let open = slots; open.length > 0; open = open.filter((one) => one.left > 0)) {
    if (Date.now() > deadline) throw new Error(`records still missing: ${JSON.stringify(open[0].topic)}`)
    const leaders = cluster.findLeaderForPartitions(open[0].topic, [open[0].partition])
    const broker = await cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
    const topics = new Map()
    for (const one of open) {
      const partitions = topics.get(one.topic) || []
      partitions.push({ partition: one.partition, fetchOffset: one.next.toString(), maxBytes: 1 << 20 })
      topics.set(one.topic, partitions)
    }
    const { responses } = await broker.fetch({
      replicaId: -1,
      isolationLevel: 0,
      maxWaitTime: 500,
      topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
    })
    for (const { topicName, partitions } of responses) {
      for (const { partition, messages } of partitions) {
        const one = slots.find((slot) => slot.topic === topicName && slot.partition === partition)
        const fresh = messages.filter((message) => BigInt(message.offset) >= one.next)
        if (fresh.length === 0) continue
        fs.writeSync(file, Buffer.concat(fresh.map((message) => encodeRecord(one.slot, message))))
        one.next = BigInt(fresh[fresh.length - 1].offset) + 1n
        one.left -= fresh.length
      }
    }
  }
  fs.closeSync(file)
  await cluster.disconnect()
}

async function main([action, bootstrap, name, ...rest]) {
  await loadCodecs()
  if (action === 'create') await create(bootstrap, name, rest[0])
  else if (action === 'produce') await produce(bootstrap, name, rest)
  else if (action === 'consume') await consume(bootstrap, name, rest)
  else throw new Error(`unknown action ${action}`)
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error)
    process.exit(1)
  },
)
