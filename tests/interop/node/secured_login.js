'use strict'

/**
 * KafkaJS at the listeners of a guarded broker.
 *
 *   secured_login.js CELLS
 *
 * CELLS is what tests/interop/python/secured_login.py takes; so is what it prints.
 */

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const MS = 20_000

function settings(cell) {
  const config = {
    clientId: 'secured',
    brokers: [cell.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 2, initialRetryTime: 100 },
    // By default it logs in again ten seconds before the end of a session, here of two seconds.
    reauthenticationThreshold: 200,
  }
  if (cell.protocol.includes('SSL')) {
    config.ssl = { ca: [fs.readFileSync(cell.ca)], servername: 'localhost' }
    if (cell.key) Object.assign(config.ssl, { key: fs.readFileSync(cell.key), cert: fs.readFileSync(cell.key) })
  }
  if (cell.mechanism) {
    config.sasl = { mechanism: cell.mechanism.toLowerCase(), username: cell.user, password: cell.password }
  }
  return config
}

async function attempt(cell) {
  const kafka = new Kafka(settings(cell))
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: cell.topic, messages: [{ value: 'value' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: `${cell.topic}-${cell.name}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [cell.topic], fromBeginning: true })
  try {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('nothing was read')), MS)
      consumer.run({
        eachMessage: async () => {
          clearTimeout(timer)
          resolve()
        },
      })
    })
  } finally {
    await consumer.disconnect()
  }
}

async function main() {
  for (const cell of JSON.parse(process.argv[2])) {
    const began = Date.now()
    let said = 'yes'
    try {
      await attempt(cell)
    } catch (error) {
      said = (error.cause && error.cause.name) || error.name
    }
    console.log(`${cell.name}\t${said}\t${((Date.now() - began) / 1000).toFixed(1)}`)
  }
  process.exit(0)
}

main()
